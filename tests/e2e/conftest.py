"""The examples are run as they are; without transformers their tests are skipped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))


@pytest.fixture(autouse=True)
def transformers() -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (python -m pip install '.[e2e]')")
