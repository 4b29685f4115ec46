"""The guide's pictures of the viewer; `--rewrite-golden` takes them anew."""

from __future__ import annotations

import struct
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pinproof.model.mutants import mutant
from pinproof.proofs.explore import explore
from pinproof.view.page import render
from pinproof.view.source import tell
from pinproof.view.sources import from_json

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = {
    "violation": (1280, 860, False, None),
    "dark": (1280, 860, True, None),
    "phone": (390, 844, False, None),
    "card": (1100, 900, False, "#breach"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_of_the_guide(clean: Any, tmp_path: Path, name: str, rewrite_golden: bool) -> None:
    width, height, dark, part = PICTURES[name]
    faulty = mutant("reclaim-ignores-pin").instance("write_back", ("full", "swa"))
    found = {**asdict(explore("write_back", ("full", "swa"), 2, 2, instance=faulty)), "mutant": "reclaim-ignores-pin"}
    page = tmp_path / "page.html"
    page.write_text(render(tell(from_json({"explorations": [found]}, "early.json"))))
    clean.open(page, width=width, height=height, dark=dark)
    box = clean.run(
        f"(r => [r.x, r.y, r.width, r.height])(document.querySelector('{part or 'body'}').getBoundingClientRect())"
    )
    clip = {"x": box[0] - 8, "y": box[1] - 8, "width": box[2] + 16, "height": box[3] + 16, "scale": 1} if part else None
    picture = clean.screenshot(clip=clip)
    if rewrite_golden:
        (IMAGES / f"{name}.png").write_bytes(picture)
    kept = (IMAGES / f"{name}.png").read_bytes()
    assert kept[:8] == b"\x89PNG\r\n\x1a\n"
    sizes = [struct.unpack(">II", image[16:24]) for image in (kept, picture)]
    assert all(abs(a - b) < 80 for a, b in zip(*sizes, strict=True)), "the picture is of another page: take it anew"
    assert len(zlib.compress(kept)) > 10_000
