"""A counterexample to induction on a terminal: both trees, what each holder has, the action, and what is broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ..model.vocabulary import COMPONENT_SETS, PHASES, Component, relations
from ..proofs.counterexample import Counterexample
from ..proofs.picture import Picture
from .source import tree_of
from .terminal import labelled, side_by_side
from .tree import Tree

_HAS = {
    "device_lock": "device lock",
    "host_lock": "host lock",
    "reads": "reads",
    "writes": "writes",
    "load_back_pending": "pins",
    "write_through_pending": "marks",
    "storage_reads": "stores",
    "anchor": "anchored at",
}
_IS = (*(phase.name for phase in PHASES), "reserved", "filling")


def counterexample(example: Counterexample) -> RenderableType:
    """The two trees side by side with only the differences lit, and why the obligation fails.

    The trees are the same where the action never gets that far.
    """
    components = next(c for c in COMPONENT_SETS if c == example.components)
    before, after = example.before, example.after or example.before
    args = ", ".join(f"{name}={value}" for name, value in example.args.items())
    rows = [("action", f"{example.action}({args})")] if example.action else []
    rows += [("broken", f"{example.words}  ({example.subject})")]
    rows += [("not so" if i == 0 else "", part) for i, part in enumerate(example.false)]
    trees = side_by_side(
        _tree(before, components), _tree(after, components), more=list(_holders(before, after, components))
    )
    return Group(Text(example.obligation, style="bold red"), trees, *labelled(rows))


def _tree(picture: Picture, components: tuple[Component, ...]) -> Tree:
    return tree_of(picture.state(relations(components)), components)


def _holders(before: Picture, after: Picture, components: Sequence[str]) -> Iterator[tuple[Text, Text]]:
    one, other = _has(before, components), _has(after, components)
    for holder in sorted({*one, *other}):
        differs = one.get(holder) != other.get(holder)
        yield _line(holder, one, "bold red" * differs), _line(holder, other, "bold green" * differs)


def _line(holder: int, side: dict[int, str], lit: str) -> Text:
    return Text(f"{'~' if lit else ' '} holder {holder}: {side[holder]}" if holder in side else "", style=lit)


def _has(picture: Picture, components: Sequence[str]) -> dict[int, str]:
    """What each holder is and has, in words."""
    told: dict[int, list[str]] = {}
    for relation in _IS:
        for (holder,) in picture.facts.get(relation, []):
            told.setdefault(holder, []).append(relation)
    for relation, words in _HAS.items():
        for component in ("", *components):
            rows = picture.facts.get(f"{relation}.{component}" if component else relation, [])
            for holder in sorted({row[1] for row in rows}):
                nodes = ", ".join(str(node) for node, other in rows if other == holder)
                told.setdefault(holder, []).append(f"{component} {words} {nodes}".strip())
    return {holder: " · ".join(parts) for holder, parts in told.items()}
