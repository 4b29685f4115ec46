from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pinproof.conformance.conform import conform
from pinproof.conformance.events import Event, Header
from pinproof.conformance.trace import TraceReader

Recorded = tuple[Header, list[Event]]


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of the cache under write_back with all components."""
    path = tmp_path_factory.mktemp("traces") / "impl.ndjson"
    result = conform("impl", "write_back", ("full", "swa", "mamba"), 150, 3, trace=path)
    assert result.verdict == "holds"
    return path


@pytest.fixture
def edited(recording: Path, tmp_path: Path) -> Callable[[Callable[[list[str]], list[str]]], Path]:
    """A copy of the recording whose lines were edited."""

    def edit(change: Callable[[list[str]], list[str]]) -> Path:
        path = tmp_path / "edited.ndjson"
        path.write_text("".join(change(recording.read_text().splitlines(keepends=True))))
        return path

    return edit


@pytest.fixture
def events(recording: Path) -> Recorded:
    reader = TraceReader(recording)
    return reader.header, list(reader)
