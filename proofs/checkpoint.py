"""A search on disk: its levels, and what has been counted, so that another run goes on where one was interrupted.

The folder holds the states of every level, each with its link, and `manifest.json`, which is replaced as a whole
after each level. What an interrupted level left behind is written over. The set of known states is made anew from
the levels.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .frontier import Block
from .program import Universe
from .search import Search, Tally
from .shape import Shape
from .spill import Disk, ExplorationError, Stored

FORMAT = 1


class CheckpointMismatch(ExplorationError):
    """The folder holds the checkpoint of another search, or something else."""


class Checkpoint:
    """The folder of one search.

    Raises:
        CheckpointMismatch: the folder holds another search, or files but no search.
    """

    def __init__(self, folder: Path, universe: Universe) -> None:
        self.folder = folder
        self.disk = Disk(folder)
        self.width = universe.layout.width
        self.fingerprint = fingerprint(universe)
        self.levels: list[list[dict[str, Any]]] = []
        self._manifest: dict[str, Any] | None = None
        path = folder / "manifest.json"
        if path.exists():
            self._manifest = json.loads(path.read_text())
            if (self._manifest["format"], self._manifest["search"]) != (FORMAT, self.fingerprint):
                raise CheckpointMismatch(
                    f"{folder} holds the search of {self._manifest['name']}, with another text, universe, symmetry or "
                    "witness than this one; give another folder, or remove it"
                )
        elif folder.exists() and any(folder.iterdir()):
            raise CheckpointMismatch(f"{folder} is not empty and holds no search; give another folder")
        self._name = f"{universe.system.name} with {universe.nodes} nodes and {universe.holders} holders"

    def restore(self, search: Search) -> float:
        """Bring a new search to where the folder's is, and say how many seconds that one took; 0 if there is none."""
        if self._manifest is None:
            return 0.0
        self.levels = self._manifest["levels"]
        search.tally = Tally(**self._manifest["tally"])
        for level in self.levels:
            search.retire()
            search.blocks = [self._block(b) for b in level]
            search.recall(search.blocks)
        return float(self._manifest["seconds"])

    def save(self, search: Search, seconds: float) -> None:
        """Write down the level that `search` has just found."""
        if not self.levels:
            self.levels.append(
                [{"live": search.universe.start.live, "up": search.universe.start.up, "start": 0, "n": 1}]
            )
        self.levels.append(
            [{"live": b.shape.live, "up": b.shape.up, "start": b.start, "n": b.n} for b in search.blocks]
        )
        manifest = {
            "format": FORMAT,
            "search": self.fingerprint,
            "name": self._name,
            "seconds": seconds,
            "tally": asdict(search.tally),
            "levels": self.levels,
        }
        temporary = self.folder / "manifest.new"
        temporary.write_text(json.dumps(manifest))
        os.replace(temporary, self.folder / "manifest.json")

    def _block(self, told: dict[str, Any]) -> Block:
        stored = Stored(self.folder / f"states-{told['start']}.i64", self.width + 1, told["n"])
        return Block(Shape(told["live"], tuple(told["up"])), told["start"], told["n"], stored, stored)


def fingerprint(universe: Universe) -> str:
    """What must be the same for one search to go on where another stopped."""
    system = universe.system
    text = [(a.name, a.parameters, a.steps) for a in system.actions.values()]
    parts = (
        text, system.properties, [r.name for r in system.relations], sorted(system.at_root),
        universe.nodes, universe.holders, universe.symmetry, universe.witness,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()
