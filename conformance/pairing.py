"""Two targets that were asked the same, answer by answer: where they part.

What counts: whether it was done, and if not, of which type the error is; the result; the events with what they did and
to whom, and the slots that changed hands; what both can see of every node that was shown. What does not: the words of
an error or reason, how nodes, holders and slots are numbered, the order of events within one answer (each side's own
order is judged by the protocol), and which nodes an event shows besides those that changed in what both see. Nodes and
holders are known by their births: those that come in the same event of both are the same. So are slots that are taken
in it, place by place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..model.vocabulary import Component
from .divergence import FieldDifference
from .events import FIELDS, NOTHING, Event, NodeState, Row, Tier, Verb
from .ledger import Pool
from .projection import Sight
from .situation import NOBODY
from .targets.base import Answer

NODE_RESULTS, HOLDER_RESULTS = ("node", "host_node", "device_node"), ("holder",)
"""Fields of results that name one."""
HOLDER_FIELDS = ("load_back_pending_id", "write_through_pending_id")

Whose = tuple[Verb, Tier, Component, str, int | None]
"""Verb, tier, component and owner of slots; an owner that no event has named has no number."""


class Pairing:
    """Compares answers of target `a` with those of target `b`, and learns what `b` calls what `a` has named.

    Args:
        sees_a, sees_b: fields of `NodeState` that each can see; None: all.

    Attributes:
        compared: how much has been: answers, events, states of nodes, slots; and answers with events in another order.
        unseen: fields of which nothing is compared, since one side cannot see them.
    """

    def __init__(self, sees_a: Sequence[str] | None, sees_b: Sequence[str] | None) -> None:
        self.compared: Counter[str] = Counter()
        both = common(sees_a, sees_b)
        self.sight = Sight(both)
        self.unseen = tuple(f for f in FIELDS if f not in {word.partition(".")[0] for word in both})
        self._names: dict[str, dict[int, int]] = {"node": {0: 0}, "holder": {}}
        self._back: dict[str, dict[int, int]] = {"node": {0: 0}, "holder": {}}
        self._slots: dict[Pool, dict[int, int]] = {}
        self._shown: tuple[dict[int, NodeState], dict[int, NodeState]] = ({}, {})

    def request(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a request to `a`, in the names of `b`; what `b` has never had is nobody's."""
        if isinstance(args.get("args"), Mapping):  # a single action, which says how the new are to be called
            return {**args, "args": {k: self._names[_kind(k)].get(v, v) for k, v in args["args"].items()}}
        return {
            k: self._names[k].get(v, NOBODY) if k in self._names and isinstance(v, int) else v for k, v in args.items()
        }

    def differences(self, a: Answer, b: Answer) -> tuple[FieldDifference, ...]:
        """In what two answers to the same differ, under the names of `a`."""
        self.compared["answers"] += 1
        found = [*self._events(a.events, b.events), *self._results(a, b)]
        return tuple(found or self._states(a.events, b.events))

    # Results
    def _results(self, a: Answer, b: Answer) -> Iterator[FieldDifference]:
        said = [each.error.type if each.error is not None else "done" for each in (a, b)]
        if said[0] != said[1]:
            yield FieldDifference(None, "outcome", *said)
            return
        left, right = self._named(a.result or {}), b.result or {}
        for key in dict.fromkeys((*left, *right)):
            if left.get(key) != right.get(key):
                yield FieldDifference(None, f"result.{key}", (a.result or {}).get(key), right.get(key))

    def _named(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A result of `a` in the names of `b`."""
        found = dict(result)
        for key, value in result.items():
            kind = "node" if key in NODE_RESULTS else "holder" if key in HOLDER_RESULTS else ""
            if kind and isinstance(value, int):
                found[key] = self._names[kind].get(value)
            elif key == "settled":
                found[key] = [[self._names["holder"].get(holder), *rest] for holder, *rest in value]
            elif key == "names":
                found[key] = {k: self._names[_kind(k)].get(v) for k, v in value.items()}
        return found

    # Events
    def _events(self, a: Sequence[Event], b: Sequence[Event]) -> Iterator[FieldDifference]:
        """Each event of `a` has its like in `b`, and the other way round."""
        left = list(b)
        for event in a:
            self.compared["events"] += 1
            at = next((i for i, other in enumerate(left) if self._same(event, other)), None)
            if at is None:
                near = next((other for other in left if other.action == event.action), left[0] if left else None)
                yield from self._apart(event, near)
                return
            if at:
                self.compared["answers in another order"] += 1
            self._born(event, left.pop(at))
        if left:
            yield FieldDifference(None, "event", None, "there")

    def _same(self, a: Event, b: Event) -> bool:
        return (
            (a.action, a.outcome, a.namespace) == (b.action, b.outcome, b.namespace)
            and self._args_agree(a, b)
            and not self._hands(a, b)
        )

    def _args_agree(self, a: Event, b: Event) -> bool:
        if a.args.keys() != b.args.keys():
            return False
        for name, value in a.args.items():
            other, kind = b.args[name], _kind(name)
            if not isinstance(value, int) or not isinstance(other, int):
                if value != other:
                    return False
            elif self._names[kind].get(value, other) != other or self._back[kind].get(other, value) != value:
                return False
        return True

    def _hands(self, a: Event, b: Event) -> list[tuple[Whose, Any, Any]]:
        """Slots that did not change hands alike: of whom, and what either side says."""
        if not a.slots and not b.slots:
            return []
        said = {(_kind(k), v): b.args.get(k) for k, v in a.args.items() if isinstance(v, int)}
        mine = _by_owner(a.slots, lambda kind, id_: said.get((kind, id_), self._names[kind].get(id_)))
        here = {(_kind(k), v) for k, v in b.args.items() if isinstance(v, int)}
        theirs = _by_owner(b.slots, lambda kind, id_: id_ if (kind, id_) in here or id_ in self._back[kind] else None)
        taken = _taken(a.slots, b.slots)
        found = []
        for whose in dict.fromkeys((*mine, *theirs)):
            left, right = mine.get(whose, []), theirs.get(whose, [])
            known = {**self._slots.get(whose[1:3], {}), **taken.get(whose[1:3], {})} if whose[0] != "take" else {}
            if len(left) != len(right) or not {known[slot] for slot in left if slot in known} <= set(right):
                found.append((whose, left, right))
        return found

    def _born(self, a: Event, b: Event) -> None:
        for name, value in a.args.items():
            other = b.args[name]
            if isinstance(value, int) and isinstance(other, int):
                self._names[_kind(name)][value] = other
                self._back[_kind(name)][other] = value
        for pool, slots in _taken(a.slots, b.slots).items():
            self._slots.setdefault(pool, {}).update(slots)
        self.compared["slots"] += sum(len(row[3]) for row in a.slots)

    def _apart(self, a: Event, b: Event | None) -> Iterator[FieldDifference]:
        if b is None:
            yield FieldDifference(None, "event", "there", None)
            return
        for field in ("action", "outcome", "namespace"):
            if getattr(a, field) != getattr(b, field):
                yield FieldDifference(None, field, getattr(a, field), getattr(b, field))
        if not self._args_agree(a, b):
            yield FieldDifference(None, "args", a.args, b.args)
        for (verb, tier, component, *whose), mine, theirs in self._hands(a, b):
            owner = " ".join(str(part) for part in whose if part is not None)
            yield FieldDifference(None, f"{verb} {tier} {component} of {owner}", mine, theirs)

    # States
    def _states(self, a: Sequence[Event], b: Sequence[Event]) -> Iterator[FieldDifference]:
        """What both see of the nodes that one of them has shown."""
        names, back = self._names["node"], self._back["node"]
        for events, shown in zip((a, b), self._shown, strict=True):
            for event in events:
                for node, state in event.post.items():
                    if state is None:
                        shown.pop(node, None)
                    else:
                        shown[node] = state
        touched = dict.fromkeys(node for event in a for node in event.post)
        touched |= dict.fromkeys(back.get(node, -1) for event in b for node in event.post)
        for node in touched:
            left, right = self._shown[0].get(node), self._shown[1].get(names.get(node, -1))
            self.compared["states of nodes"] += 1
            for field, mine, theirs in self.sight.differences(left or NOTHING, right or NOTHING):
                if field not in HOLDER_FIELDS or self._names["holder"].get(mine) != theirs:  # type: ignore[call-overload]
                    yield FieldDifference(node, field, mine, theirs)


def common(a: Sequence[str] | None, b: Sequence[str] | None) -> list[str]:
    """What is seen by both: a field, or the one component of a count that one of them sees."""
    found = []
    for one, other in ((a or FIELDS, b or FIELDS), (b or FIELDS, a or FIELDS)):
        found += [word for word in one if word in other or word.partition(".")[0] in other]
    return list(dict.fromkeys(found))


def _by_owner(rows: Sequence[Row], name: Callable[[str, int], Any]) -> dict[Whose, list[int]]:
    found: dict[Whose, list[int]] = {}
    for verb, tier, component, slots, (kind, owner) in rows:
        found.setdefault((verb, tier, component, kind, name(kind, owner)), []).extend(slots)
    return found


def _taken(a: Sequence[Row], b: Sequence[Row]) -> dict[Pool, dict[int, int]]:
    """What `b` calls the slots that both took, row by row and place by place."""
    left = [row for row in b if row[0] == "take"]
    found: dict[Pool, dict[int, int]] = {}
    for _, tier, component, slots, _ in (row for row in a if row[0] == "take"):
        like = next((r for r in left if r[1:3] == (tier, component) and len(r[3]) == len(slots)), None)
        if like is not None:
            left.remove(like)
            found.setdefault((tier, component), {}).update(zip(slots, like[3], strict=True))
    return found


def _kind(parameter: str) -> str:
    return "holder" if parameter == "holder" else "node"
