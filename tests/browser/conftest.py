"""One browser for all tests of the viewer; without one they are skipped, and say so."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def load(name: str) -> ModuleType:
    """A helper module beside this file (test folders are not packages)."""
    spec = importlib.util.spec_from_file_location(f"pinproof_browser_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def page() -> Iterator[Any]:
    """A browser's tab."""
    pytest.importorskip("websocket", reason="websocket-client is not installed")
    chromium = load("chromium")
    executable = chromium.find()
    if executable is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with chromium.browser(executable) as tab:
        yield tab


@pytest.fixture
def clean(page: Any) -> Iterator[Any]:
    """The tab; a test fails if the page complained or asked for anything."""
    page.complaints.clear()
    yield page
    assert page.complaints == []
