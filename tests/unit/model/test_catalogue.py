"""`specs/invariants.toml` is the catalogue of model/properties.py, word for word."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

from pinproof.model.instance import instances
from pinproof.model.properties import CATALOGUE, KINDS

INVARIANTS = Path(__file__).parents[3] / "specs" / "invariants.toml"
HEAD = """\
# The properties that hold in every state of the protocol, by class. The formulas are in model/properties.py.
# Written by: python -m pytest tests/unit/model/test_catalogue.py --rewrite-golden
"""
SPREAD = {"once": "all", "component": "each component", "aux": "swa and mamba, each"}


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def written() -> str:
    parts = [HEAD]
    for family in CATALOGUE.values():
        rows = {
            "id": quoted(family.id),
            "class": quoted(family.kind),
            "words": quoted(family.words),
            "policies": "[" + ", ".join(quoted(p) for p in family.policies) + "]",
            "components": quoted(SPREAD[family.per]),
            "source": quoted(family.source),
        }
        parts.append("\n".join(["[[invariant]]", *(f"{k} = {v}" for k, v in rows.items()), ""]))
    return "\n".join(parts)


def test_catalogue_and_code_are_equal(rewrite_golden: bool) -> None:
    if rewrite_golden:
        INVARIANTS.write_text(written())
    assert INVARIANTS.read_text() == written()
    entries = tomllib.loads(INVARIANTS.read_text())["invariant"]
    assert [e["id"] for e in entries] == list(CATALOGUE)


def test_catalogue_covers_all_classes() -> None:
    counts = Counter(f.kind for f in CATALOGUE.values())
    assert set(counts) == set(KINDS)
    assert counts == {
        "safety": 19,
        "visibility": 8,
        "accounting": 10,
        "tracking": 3,
        "release": 10,
        "permissiveness": 3,
        "structure": 12,
    }


def test_every_instance_has_its_share() -> None:
    assert {i.name: len(i.properties) for i in instances()} == {
        "write_back/full": 55,
        "write_back/full+swa": 82,
        "write_back/full+mamba": 82,
        "write_back/full+swa+mamba": 109,
        "write_through/full": 55,
        "write_through/full+swa": 83,
        "write_through/full+mamba": 83,
        "write_through/full+swa+mamba": 111,
    }


def test_every_rule_has_words() -> None:
    assert all(f.words.endswith((".", "!")) for f in CATALOGUE.values())
