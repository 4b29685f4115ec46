"""Turns events into a story, in bounded memory: the steps around the violation, or the last ones, and an overview."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from ..conformance.events import Event, NodeState
from ..model.state import ROOT_NODE
from ..model.vocabulary import Component
from .judge import Replay, Violation
from .story import Held, Lane, Overview, Step, Story
from .tree import ROOT, Change, Tree, apply, difference, flatten
from .words import BEGINS, COMMITS, ENDS, shorten, split_name

VIOLATIONS = 50
"""As many are told; the others are counted nowhere, for after so many nobody looks."""


class Teller:
    """Turns events into a story.

    Args:
        judge: knows who holds what, and may say what is wrong; without one, what the events say is shown.
        reported: what somebody else found, by the position of the step.
        budget: bytes of steps to keep; those around the violation stay, or the last ones.
    """

    def __init__(
        self,
        components: tuple[Component, ...],
        judge: Replay | None = None,
        budget: int = 8_000_000,
        reported: Mapping[int, Violation] | None = None,
    ) -> None:
        self.components = components
        self.judge = judge
        self.reported = reported or {}
        self.budget = budget
        self.steps: deque[Step] = deque()
        self.base: Tree = {ROOT_NODE: dict(ROOT)}
        self.base_held: dict[int, dict[str, set[int]]] = {}
        self.overview = Overview()
        self.first = 0
        self.violations: list[tuple[int, Violation]] = []
        self._tree: Tree = {ROOT_NODE: dict(ROOT)}
        self._lanes: dict[int, Lane] = {}
        self._ended: deque[Lane] = deque()
        self._kept = 0
        self._full = False

    def start(self, tree: Tree) -> None:
        """The story begins with this tree instead of an empty one."""
        self.base = {n: dict(flat) for n, flat in tree.items()}
        self._tree = {n: dict(flat) for n, flat in tree.items()}

    def tell(self, events: Iterable[Event], **about: object) -> Story:
        """The whole story; `about` are fields of `Story` that the events do not say."""
        for event in events:
            self.step(event)
        last = self.first + len(self.steps)
        lanes = [lane for lane in (*self._ended, *self._lanes.values()) if lane.begin < last]
        held = {h: {r: sorted(nodes) for r, nodes in rows.items() if nodes} for h, rows in self.base_held.items()}
        return Story(
            title=str(about.get("title", "")),
            header=about.get("header", {}),  # type: ignore[arg-type]
            components=self.components,
            steps=list(self.steps),
            base=self.base,
            base_held={h: rows for h, rows in held.items() if rows},
            lanes=sorted(lanes, key=lambda lane: (lane.begin, lane.holder)),
            overview=self.overview,
            first=self.first,
            violations=self.violations,
            reproduce=str(about.get("reproduce", "")),
            note=str(about.get("note", "")),
        )

    def step(self, event: Event) -> None:
        """Tell one event."""
        name, component = split_name(event.action, event.args.get("component"))
        args = {k: v for k, v in event.args.items() if isinstance(v, int)}
        refused = event.outcome == "refused"
        before = self._holdings(args.get("holder"))
        wrong = self.judge.event(event) if self.judge is not None else []
        step = Step(
            event.seq, name, component, args, refused, shorten(event.reason), shorten(event.tag),
            {} if refused else dict(self._changes(name, args, event.post)), self._taken(name, args, before),
        )  # fmt: skip
        apply(self._tree, step.changes)
        position = self.overview.total
        self.overview.count("refused" if refused else step.family)
        if not refused:
            self._live(name, args, position)
        if position in self.reported:
            wrong = [self.reported[position], *wrong]
        if wrong and len(self.violations) < VIOLATIONS:
            self.violations.append((position, wrong[0]))
        self._keep(step)

    def _keep(self, step: Step) -> None:
        """Before a violation the oldest steps make room; after it, what does not fit any more is only counted."""
        if self._full:
            return
        self._kept += step.size()
        self.steps.append(step)
        if self.violations and self._kept > self.budget:
            self._full = True
        while not self.violations and self._kept > self.budget * 3 // 4:
            oldest = self.steps.popleft()
            self._kept -= oldest.size()
            self.first += 1
            apply(self.base, oldest.changes)
            self._hold(oldest.held)
            while self._ended and (self._ended[0].end or 0) < self.first:
                self._ended.popleft()

    def _hold(self, held: Held) -> None:
        for holder, relations in held.items():
            rows = self.base_held.setdefault(holder, {})
            for relation, (taken, given) in relations.items():
                rows.setdefault(relation, set()).update(taken)
                rows[relation].difference_update(given)
            if not any(rows.values()):
                del self.base_held[holder]

    def _changes(
        self, name: str, args: Mapping[str, int], post: Mapping[int, NodeState | None]
    ) -> Iterator[tuple[int, Change]]:
        parents = _parents(name, args, self._tree)
        gone = [n for n in self._tree if n != ROOT_NODE] if name == "reset" and not post else ()
        for node in dict.fromkeys((*parents, *post, *gone)):
            now = self._tree.get(node, {})
            parent = parents.get(node, now.get("parent", ROOT_NODE))
            if node == ROOT_NODE:
                after = flatten(post[node], None) | ROOT
            elif node in post:
                after = flatten(post[node], int(parent))
            else:
                after = {} if node in gone else {**now, "parent": int(parent)}
            if change := difference(now, after):
                yield node, change

    def _live(self, name: str, args: Mapping[str, int], position: int) -> None:
        holder = args.get("holder")
        if holder is None:
            return
        if name in BEGINS and holder not in self._lanes:
            self._lanes[holder] = Lane(holder, BEGINS[name], position, node=args.get("node"))
        lane = self._lanes.setdefault(holder, Lane(holder, "operation", position))
        if name in COMMITS and lane.commit is None:
            lane.commit = position
        if name in ENDS:
            lane.end, lane.how = position, ENDS[name]
            self._ended.append(self._lanes.pop(holder))

    def _holdings(self, holder: int | None) -> dict[str, set[int]]:
        if holder is None or self.judge is None or self.judge.lost:
            return {}
        pairs = self.judge.machine.state.pairs
        return {name: set(rows.by_holder[holder]) for name, rows in pairs.items() if holder in rows.by_holder}

    def _taken(self, name: str, args: Mapping[str, int], before: dict[str, set[int]]) -> Held:
        """What the step's operation took and gave back; after a split, what every operation has on the prefix."""
        if self.judge is None or self.judge.lost:
            return {}
        found: Held = {}
        if name == "split":
            prefix = args.get("prefix", -1)
            for relation, pairs in self.judge.machine.state.pairs.items():
                for heir in pairs.holders(prefix):
                    found.setdefault(heir, {})[relation] = ([prefix], [])
        elif (holder := args.get("holder")) is not None:
            after = self._holdings(holder)
            for relation in dict.fromkeys((*before, *after)):
                old, new = before.get(relation, set()), after.get(relation, set())
                if old != new:
                    found.setdefault(holder, {})[relation] = (sorted(new - old), sorted(old - new))
        return found


def _parents(name: str, args: Mapping[str, int], tree: Tree) -> dict[int, int]:
    """Who has a new parent after an action."""
    match name:
        case "insert_leaf" | "insert_host" if "leaf" in args:
            return {args["leaf"]: args.get("parent", ROOT_NODE)}
        case "split" if "node" in args and "prefix" in args:
            above = tree.get(args["node"], {}).get("parent", ROOT_NODE)
            return {args["prefix"]: int(above), args["node"]: args["prefix"]}
    return {}
