"""What is installed is what is in the repository."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parents[3]
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())
ROOMS = ("specs", "model", "proofs", "impl", "conformance", "view", "cli")


def test_every_package_is_listed() -> None:
    found = {
        ".".join(["pinproof", *file.parent.relative_to(HERE).parts])
        for room in ROOMS
        for file in (HERE / room).rglob("__init__.py")
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == found | {"pinproof"}


def test_every_dependency_is_pinned() -> None:
    pins = {name(line) for line in (HERE / "constraints.txt").read_text().splitlines() if "==" in line}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *(x for extra in extras.values() for x in extra)]
    assert {name(x) for x in wanted} - pins == set()


def name(requirement: str) -> str:
    return re.split(r"[<>=\[;! ]", requirement)[0].lower().replace("_", "-").replace(".", "-")
