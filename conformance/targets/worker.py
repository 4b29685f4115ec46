"""A target in a process of its own, spoken to in JSON lines: another interpreter, other packages, another language.

It may crash, hang or talk nonsense: each becomes an answer of type `TargetCrashed` with what it last wrote to stderr.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import msgspec

from ..errors import ConformanceError
from .base import CRASHED, Answer, Capabilities, Configuration, Problem

TIMEOUT = 60.0
"""Seconds that an answer may take."""
TAIL = 4000
"""Bytes of stderr that a crash report quotes at most."""


class _Batch(msgspec.Struct):
    answers: list[Answer] = []
    ok: bool = True
    error: Problem | None = None
    id: int | None = None


class WorkerTarget:
    """Starts `command` when it is first configured, and again after it ended.

    Args:
        command: speaks the worker protocol on stdin and stdout.
        name: of the target.
        timeout: seconds for one answer; after that it is killed.
    """

    def __init__(self, command: Sequence[str], name: str, *, timeout: float = TIMEOUT) -> None:
        self.command = list(command)
        self.name = name
        self.timeout = timeout
        self.capabilities = Capabilities(target=name)
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: BinaryIO | None = None
        self._next = 0
        self._rest = b""
        self._asked: str | None = None
        self._requests = 0
        self._unsent = memoryview(b"")
        self._dead: str | None = None
        self._encode = msgspec.json.Encoder().encode
        self._answer = msgspec.json.Decoder(Answer).decode
        self._batch = msgspec.json.Decoder(_Batch).decode

    def configure(self, configuration: Configuration) -> Answer:
        """Start the process if it does not run, and configure it."""
        if self._dead is not None or self._process is None:
            self.close()
            self._start()
        answer = self.op("configure", **configuration.as_args())
        if answer.ok:
            try:
                self.capabilities = msgspec.convert(answer.result, Capabilities)
            except msgspec.ValidationError as error:
                return self._ended(f"its capabilities make no sense: {error}")
        return answer

    def op(self, name: str, **args: Any) -> Answer:
        """One operation."""
        line = self._exchange({"op": name, **args})
        return self._decoded(line, self._answer) if isinstance(line, bytes) else line

    def batch(self, requests: Sequence[dict[str, Any]]) -> list[Answer]:
        """Several operations in one round trip; an answer that is the last and tells of a crash stands for the rest."""
        self.send(requests)
        return self.receive()

    def send(self, requests: Sequence[dict[str, Any]]) -> None:
        """Ask for several operations, and do not wait for the answers: `receive` gives them."""
        self._requests = len(requests)
        self._begin({"op": "batch", "requests": list(requests)})

    def receive(self) -> list[Answer]:
        """The answers to what was sent, as of `batch`.

        Raises:
            ConformanceError: the target takes one operation at a time.
        """
        line = self._end()
        if not isinstance(line, bytes):
            return [line]
        told: _Batch | Answer = self._decoded(line, self._batch)
        if isinstance(told, Answer):
            return [told]
        if not told.ok:
            problem = told.error or Problem("RefusedOperation", "no reason given")
            raise ConformanceError(f"{self.name} takes no batches: {problem.message}")
        if len(told.answers) != self._requests:
            return [self._ended(f"it gave {len(told.answers)} answers to {self._requests} requests")]
        return told.answers

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                _kill(process)
            process.stdout.close()
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None
        self._dead, self._rest, self._asked = None, b"", None

    # The wire
    def _start(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                bufsize=0, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._dead = f"{self.command[0]} cannot be started: {error.strerror}"
            return
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _exchange(self, request: dict[str, Any]) -> bytes | Answer:
        """One line there, one line back."""
        self._begin(request)
        return self._end()

    def _begin(self, request: dict[str, Any]) -> None:
        """Send a line, as far as that goes without waiting."""
        if self._asked is not None:
            self._end()  # nobody wants that answer any more
        self._next += 1
        self._asked = request["op"]
        self._unsent = memoryview(self._encode({"id": self._next, **request}) + b"\n")
        if self._dead is None and self._process is not None:
            self._write(self._process)

    def _write(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        try:
            self._unsent = self._unsent[os.write(process.stdin.fileno(), self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = self._unsent[:0]

    def _end(self) -> bytes | Answer:
        """The line that comes back. Reads while it writes, so that neither side can block the other for good."""
        asked, self._asked = self._asked, None
        if self._dead is not None:
            return Answer(False, None, Problem(CRASHED, self._dead))
        if self._process is None:
            return Answer(False, None, Problem("RefusedUnconfigured", "configure it first"))
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        pieces = [self._rest]
        end = time.monotonic() + self.timeout
        while True:
            left = end - time.monotonic()
            if left <= 0:
                _kill(process)
                return self._ended(f"{asked}: no answer within {self.timeout:g} s; it was killed")
            ready = select.poll()
            ready.register(process.stdout, select.POLLIN)
            if self._unsent:
                ready.register(process.stdin, select.POLLOUT)
            found = [fd for fd, _ in ready.poll(1000 * left)]
            if process.stdin.fileno() in found:
                self._write(process)
            if process.stdout.fileno() not in found:
                continue
            piece = os.read(process.stdout.fileno(), 1 << 18)
            if not piece:
                return self._ended(f"{asked}: it ended")
            pieces.append(piece)
            if b"\n" in piece:
                line, _, self._rest = b"".join(pieces).partition(b"\n")
                return line

    def _decoded(self, line: bytes, decode: Callable[[bytes], Any]) -> Any:
        """What a line says; an answer that tells of a crash if it makes no sense."""
        try:
            told = decode(line)
        except msgspec.DecodeError as error:
            return self._ended(f"its answer makes no sense: {error}: {line[:200]!r}")
        if told.id != self._next:
            return self._ended(f"it answered {told.id}, and was asked {self._next}")
        return told

    def _ended(self, words: str) -> Answer:
        status = None
        if self._process is not None:
            _kill(self._process)
            status = self._process.returncode
        tail = ""
        if self._stderr is not None:
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - TAIL))
            tail = self._stderr.read().decode("utf-8", "replace").strip()
        self._dead = f"{words} (exit status {status})" + (f"; stderr: {tail}" if tail else "")
        return Answer(False, None, Problem(CRASHED, self._dead))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the process and whatever it started."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
