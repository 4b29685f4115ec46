"""Isolated environments for releases of SGLang, under the user's cache folder.

Layout (``root()``, by default ``$XDG_CACHE_HOME/pinproof/targets``)::

    venv-<digest>/          one virtual environment, keyed by the interpreter and the pinned requirements
    sglang-<version>/       the unpacked wheel of a release (``sglang --no-deps``)

`install` builds both in a temporary folder beside the target and renames it into place, so an interrupted install
leaves nothing that looks finished, and two installs at once end with one of the two results. It does nothing when
both are there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

RELEASES: tuple[str, ...] = ("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23")
"""The releases the controller knows, oldest first."""

RUST_SINCE = "0.5.19"
"""The first release whose wheel carries the Rust core."""

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_READY = ".pinproof-ready"


class EnvironmentProblem(Exception):
    """An environment for a release is not there and could not be made."""


class UnknownRelease(EnvironmentProblem):
    """The version is none of `RELEASES`."""

    def __init__(self, version: str) -> None:
        super().__init__(f"sglang {version!r} is not a release this target knows: {', '.join(RELEASES)}")
        self.version = version


class UnsupportedInterpreter(EnvironmentProblem):
    """SGLang's wheels are built for one interpreter; this one cannot load them."""


class InstallFailed(EnvironmentProblem):
    """A step of the install failed; `step` names it and the message ends with what pip said."""

    def __init__(self, step: str, detail: str) -> None:
        super().__init__(f"{step} failed: {detail}")
        self.step = step


class NotInstalled(EnvironmentProblem):
    """The release is known but not installed here."""

    def __init__(self, version: str) -> None:
        super().__init__(f"sglang {version} is not installed (pinproof targets install sglang=={version})")
        self.version = version


@dataclass(frozen=True, slots=True)
class Environment:
    """An installed release: the interpreter to run the worker with, and the unpacked wheel."""

    version: str
    python: Path
    source: Path

    @property
    def cores(self) -> tuple[str, ...]:
        """The tree cores this release ships: ``("python",)`` or ``("python", "rust")``."""
        return ("python", "rust") if has_rust(self.version) else ("python",)

    def command(self, core: str) -> list[str]:
        """The command line of a worker for `core`: ``python``, ``rust``; ``+NAME`` adds a patch (`loader.PATCHES`)."""
        core, _, patch = core.partition("+")
        if core not in self.cores:
            raise EnvironmentProblem(f"sglang {self.version} has no {core!r} core, only {', '.join(self.cores)}")
        worker = Path(__file__).with_name("worker.py")
        return [
            str(self.python),
            "-u",
            str(worker),
            "--source",
            str(self.source),
            "--core",
            core,
            *(["--patch", patch] if patch else []),
        ]


def has_rust(version: str) -> bool:
    """Whether the wheel of `version` carries the Rust core."""
    return RELEASES.index(known(version)) >= RELEASES.index(RUST_SINCE)


def known(version: str) -> str:
    """`version` itself, or `UnknownRelease`."""
    if version not in RELEASES:
        raise UnknownRelease(version)
    return version


def root() -> Path:
    """The folder that holds every environment (not created)."""
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache else Path.home() / ".cache"
    return base / "pinproof" / "targets"


def find(version: str) -> Environment:
    """The installed environment of `version`; `NotInstalled` or `UnknownRelease` otherwise."""
    known(version)
    venv, source = _venv_folder(), root() / f"sglang-{version}"
    if not (venv / _READY).is_file() or not (source / _READY).is_file():
        raise NotInstalled(version)
    return Environment(version, _interpreter(venv), source)


def install(version: str) -> Environment:
    """Make the environment of `version` if it is not there; return it.

    Raises `UnknownRelease`, `UnsupportedInterpreter`, or `InstallFailed` with the step and pip's last words.
    """
    known(version)
    if sys.version_info[:2] != (3, 11) or sys.platform != "linux":
        raise UnsupportedInterpreter(
            f"sglang's wheels load on CPython 3.11 on Linux, this is {sys.version.split()[0]} on {sys.platform}"
        )
    root().mkdir(parents=True, exist_ok=True)
    venv = _venv_folder()
    if not (venv / _READY).is_file():
        _build(venv, _make_venv)
    source = root() / f"sglang-{version}"
    if not (source / _READY).is_file():
        _build(source, lambda folder: _unpack(folder, version, _interpreter(venv)))
    return find(version)


def _venv_folder() -> Path:
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return root() / f"venv-{digest}"


def _interpreter(venv: Path) -> Path:
    return venv / "bin" / "python"


def _build(target: Path, make: object) -> None:
    """Run `make` on a fresh folder beside `target` and rename it there; what it leaves on failure is removed."""
    assert callable(make)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        make(scratch)
        (scratch / _READY).write_text("complete\n")
        if target.exists() and not (target / _READY).is_file():
            shutil.rmtree(target)
        try:
            scratch.rename(target)
        except OSError as error:
            if not (target / _READY).is_file():
                raise InstallFailed(f"moving {scratch.name} to {target}", str(error)) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _make_venv(folder: Path) -> None:
    # A venv may be moved as long as nothing but its own python is called: scripts with absolute paths are not used.
    _run("creating the virtual environment", [sys.executable, "-m", "venv", str(folder)])
    _run(
        "installing the pinned requirements",
        [str(_interpreter(folder)), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)],
    )


def _unpack(folder: Path, version: str, python: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=folder.parent) as wheels:
        command = [str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        _run(f"downloading sglang {version}", [*command, "-d", wheels, f"sglang=={version}"])
        found = sorted(Path(wheels).glob(f"sglang-{version}-*.whl"))
        if not found:
            raise InstallFailed(f"downloading sglang {version}", "pip left no wheel")
        try:
            with zipfile.ZipFile(found[0]) as archive:
                archive.extractall(folder)
        except (zipfile.BadZipFile, OSError) as error:
            raise InstallFailed(f"unpacking {found[0].name}", str(error)) from error


def _run(step: str, command: Sequence[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InstallFailed(step, str(error)) from error
    if done.returncode:
        words = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise InstallFailed(step, " | ".join(words[-3:]) or f"exit status {done.returncode}")
