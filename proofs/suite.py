"""Suites of step sequences as files.

A suite is a text file: a header in its first line, then a sequence a line, all as JSON. Every sequence starts from an
empty cache. A step is `[action, argument, …]`, its arguments in the order that the header's `parameters` gives;
nodes and holders have numbers that are never used twice in a sequence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from .traces import Step

Covers = Literal["transitions", "situations"]


@dataclass(frozen=True, slots=True)
class SuiteHeader:
    """What a suite covers.

    Attributes:
        covers: every transition, or every situation (see `situations.py`), up to names.
        targets: how many of them there are.
        states: of the whole universe, as `transitions`.
        parameters: the names of each action's arguments, in order.
    """

    policy: str
    components: tuple[str, ...]
    nodes: int
    holders: int
    covers: Covers
    targets: int
    states: int
    transitions: int
    sequences: int
    steps: int
    parameters: dict[str, list[str]]


Told = tuple[str, list[int]]
"""An action and its arguments."""


def write_suite(path: Path, header: SuiteHeader, sequences: Iterable[Iterable[Told]]) -> None:
    """Write a suite, a sequence at a time."""
    with path.open("w") as file:
        file.write(json.dumps({"suite": "pinproof/1", **asdict(header)}) + "\n")
        for sequence in sequences:
            file.write(json.dumps([[name, *args] for name, args in sequence], separators=(",", ":")) + "\n")


def read_suite(path: Path) -> tuple[SuiteHeader, Iterator[list[Step]]]:
    """The header of a suite, and its sequences one after the other, in the form that scenarios have."""
    with path.open() as file:
        told = json.loads(file.readline())
    told.pop("suite")
    header = SuiteHeader(**{**told, "components": tuple(told["components"])})

    def told_sequences() -> Iterator[list[Step]]:
        with path.open() as lines:
            next(lines)
            for line in lines:
                yield [
                    {"action": name, "args": dict(zip(header.parameters[name], args, strict=True))}
                    for name, *args in json.loads(line)
                ]

    return header, told_sequences()
