"""The arrows between the rooms point one way: an implementation and its oracle share no code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parents[3]
ROOMS = ("specs", "model", "proofs", "impl", "conformance", "view", "cli")
MAY_IMPORT = {
    "specs": set(),
    "model": set(),
    "impl": set(),
    "proofs": {"model", "specs"},
    "conformance": {"model", "impl", "specs"},
    "view": {"model", "specs", "conformance", "proofs"},
    "cli": {"model", "specs", "conformance", "proofs", "impl", "view"},
}


def imports(file: Path) -> Iterator[str]:
    """Absolute names of what a module imports, wherever in it."""
    package = ("pinproof", *file.relative_to(HERE).parent.parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield stem
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[1] if parts[0] == "pinproof" and len(parts) > 1 else None


def modules(room: str) -> list[Path]:
    return sorted((HERE / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_before_it(room: str) -> None:
    crossings = {(file.name, other) for file in modules(room) for name in imports(file) if (other := room_of(name))}
    allowed = {room} | MAY_IMPORT[room]
    assert {(file, other) for file, other in crossings if other in ROOMS and other not in allowed} == set()


def test_the_model_needs_the_standard_library_only() -> None:
    for file in modules("model"):
        for name in imports(file):
            top = name.split(".")[0]
            assert top == "pinproof" or top in sys.stdlib_module_names, (file.name, name)


def test_nothing_imports_itself_in_a_circle() -> None:
    """Within a room, modules can be put in an order in which each imports only earlier ones."""
    graph: dict[str, set[str]] = {}
    known = {module_name(f): f for room in ROOMS for f in modules(room)}
    for name, file in known.items():
        if file.name != "__init__.py":
            graph[name] = {n for n in imports(file) if n in known and n != name and known[n].name != "__init__.py"}
    while graph:
        free = [n for n, needs in graph.items() if not needs & graph.keys()]
        assert free, f"circular imports among {sorted(graph)}"
        for name in free:
            del graph[name]


def module_name(file: Path) -> str:
    parts = ("pinproof", *file.relative_to(HERE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_the_arrow_test_can_fail() -> None:
    """The red beside the green: a turned arrow would be seen."""
    assert room_of("pinproof.model.machine") == "model"
    assert "pinproof.model.algebra" in set(imports(HERE / "proofs" / "symbolic.py"))
