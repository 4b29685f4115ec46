"""Drives headless Chromium over the DevTools protocol: no more of it than the tests need."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-allow-origins=*", "--remote-debugging-port=0",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find() -> str | None:
    """The browser's executable, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Page:
    """One tab. Console errors, uncaught exceptions and requests that leave the page are kept in `complaints`."""

    def __init__(self, socket: websocket.WebSocket) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
            self._hear(message)

    def wait_for(self, method: str) -> None:
        while True:
            message = json.loads(self._socket.recv())
            self._hear(message)
            if message.get("method") == method:
                return

    def _hear(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"])[:600])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning"):
                self.complaints.append(json.dumps(params["args"])[:600])
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent" if not params["request"]["url"].startswith(("file:", "data:")):
                self.complaints.append("request to " + params["request"]["url"])

    def open(self, file: Path, fragment: str = "", *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a page afresh, at this size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.call("Page.navigate", url=file.resolve().as_uri() + fragment)
        self.wait_for("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, as a person would."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, *, whole: bool = False, clip: dict[str, float] | None = None) -> bytes:
        """A PNG of the window, of a part of it, or of the whole page."""
        part = {} if clip is None else {"clip": clip}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **part)
        return base64.b64decode(answer["data"])


@contextlib.contextmanager
def browser(executable: str) -> Iterator[Page]:
    """A fresh browser with an empty profile, ended and removed afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stderr is not None
            address = next(line.split()[-1] for line in process.stderr if line.startswith("DevTools listening"))
            port = address.split(":")[2].split("/")[0]
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(t for t in json.load(answer) if t["type"] == "page")
            socket = websocket.create_connection(
                tab["webSocketDebuggerUrl"], timeout=60, suppress_origin=True, http_no_proxy=["127.0.0.1"]
            )
            try:
                yield Page(socket)
            finally:
                socket.close()
        finally:
            process.terminate()
            process.wait(20)
            if process.stderr:
                process.stderr.close()
