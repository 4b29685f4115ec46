"""The judge: holds each event of a target to the protocol, one after the other.

Choices are the target's, rules are the model's. Of a done event it asks whether it was enabled (safety) and whether
the target shows what the protocol says (refinement); of a refused one whether anything stood in its way
(permissiveness); of all whether the slots add up (accounting).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Literal, get_args

from ..model.algebra import TRUE, Guard
from ..model.errors import BadArgument, UnknownName
from ..model.instance import Instance
from ..model.machine import Outcome, ReferenceMachine
from ..model.vocabulary import Component, Policy, watched, watched_by
from .dialects import WINDOW_TOPS, dialect_of
from .events import Event, Header, NodeState, Tier, Tiers, action_of
from .explain import false_conjuncts
from .history import History
from .ledger import Ledger, Pool
from .projection import Projector, Sight, is_blank
from .violation import Kind, Violation, told

After = Literal["stop", "resync"]
"""What to do after a violation: check nothing more, or follow the target as far as that is possible."""

SHORTAGE = re.compile(r"no (device|host)(?: (full|swa|mamba))? room(?: for (\d+))?")
"""How a refused event states that it was refused for lack of slots."""

_FINE: Sequence[Violation] = ()
_NOBODY: Set[int] = frozenset()


class Checker:
    """Checks the events of one run, in order.

    Args:
        policy: a write policy, or an instance of the protocol to hold the target to.
        components: left out when an instance is given.
        sees: fields that the target can see (`Header.sees`); None: all. Others are skipped and counted.
        complete: the target shows every node that an action changed.
        capacity: slots of each pool, where known.
        after: what to do after a violation.

    Attributes:
        events: how many were checked.
        unobserved: fields that were not compared since the target cannot see them.
        unconfirmed: refusals for lack of slots that the ledger could neither confirm nor deny.
        lost: the model cannot follow the target any more; nothing is checked.
    """

    def __init__(
        self,
        policy: Policy | Instance,
        components: tuple[Component, ...] = ("full",),
        *,
        sees: Sequence[str] | None = None,
        complete: bool = True,
        capacity: dict[Tier, dict[Component, int]] | None = None,
        after: After = "stop",
    ) -> None:
        self.machine = ReferenceMachine(policy, components)
        self.project = Projector(self.machine)
        self.sight = Sight(sees)
        self.complete = complete
        self.after = after
        self.ledger = Ledger(capacity)
        self.history = History()
        self.events = 0
        self.unobserved = 0
        self.unconfirmed = 0
        self.lost = False
        self._told: dict[int, NodeState] = {}
        self._excused: dict[tuple[int, str], object] = {}
        """What was told of a field of a node: not to be told again as long as it differs in the same way."""
        self._slots: bool | None = None
        self._watched = ""
        actions = self.machine.instance.actions
        self._tops = {
            n: tops
            for n, a in actions.items()
            if (tops := [q.var.name for q in a.parameters if q.var.name in WINDOW_TOPS])
        }

    @classmethod
    def of(cls, header: Header, *, after: After = "stop", complete: bool = True) -> Checker:
        """A checker for the trace that begins with `header`, in the dialect of its target where that has one."""
        dialect = dialect_of(header.target)
        return cls(
            header.policy if dialect is None else dialect.instance(header.policy, header.components), header.components,
            sees=header.sees, complete=complete, capacity=header.capacity, after=after,
        )  # fmt: skip

    def check(self, event: Event) -> Sequence[Violation]:
        """Hold one event to the protocol. Returns what is wrong with it, most telling first."""
        if self.lost:
            return _FINE
        self.events += 1
        name, args = action_of(event)
        if event.namespace or self._watched:
            self._born(event, name, args)
        if name in self._tops:
            args = self._with_tops(name, args)
        if event.outcome == "refused":
            found = self._refusal(event, name, args)
            touched = _NOBODY
        else:
            outcome = self._step(name, args)
            found = [] if outcome else [self._forbidden(event, name, args, outcome)]
            if found and not self._follow(name, args):
                return found
            touched = set(event.post) if found else outcome.touched
        changed = self._compare(event, touched, found)
        if event.slots or (changed and self._slots):
            self._book(event, changed, found)
        elif changed and self._slots is None:
            self._slots = False
        if found and self.after == "stop" and any(v.kind != "permissiveness" for v in found):
            self.lost = True
        return found or _FINE

    def _with_tops(self, name: str, args: Mapping[str, int]) -> dict[str, int]:
        """Arguments with the top of each window; those that the action does not ask for left out."""
        top = args.get("boundary", args.get("base", args.get("node", 0)))
        plain = {k: v for k, v in args.items() if k not in WINDOW_TOPS}
        return {**plain, **{each: args.get(each, top) for each in self._tops[name]}}

    def _born(self, event: Event, name: str, args: Mapping[str, int]) -> None:
        """Of the namespaces that are named, the model watches the first: who is born in it, and who is not."""
        self._watched = self._watched or event.namespace
        action = self.machine.instance.actions.get(name)
        for parameter in action.parameters if action is not None else ():
            relation = {"fresh": watched, "idle": watched_by}.get(parameter.kind)
            if relation is not None and parameter.var.name in args:
                born = self.machine.state.marks[relation.name]
                (born.add if event.namespace == self._watched else born.discard)(args[parameter.var.name])

    # Enabled?
    def _step(self, name: str, args: Mapping[str, int]) -> Outcome:
        try:
            return self.machine.step(name, args)
        except (UnknownName, BadArgument) as error:
            return Outcome("senseless", Guard("expect", "protocol", TRUE, str(error)))

    def _forbidden(self, event: Event, name: str, args: Mapping[str, int], outcome: Outcome) -> Violation:
        guard = outcome.guard
        assert guard is not None
        kind: Kind = "permissiveness" if outcome.verdict == "unjustified" else "safety"
        action = self.machine.instance.actions.get(name)
        parts = (
            false_conjuncts(self.machine, action, guard, args) if action is not None and guard.formula != TRUE else ()
        )
        words = f"{name} only when: {guard.words}"
        if outcome.verdict == "unjustified":
            words = f"silent refusal: {name} only when {guard.words}"
        return Violation(
            kind, event.seq, f"{name}/{guard.name}", words, told(event), conjuncts=parts,
            recent=self._recent(event),
        )  # fmt: skip

    def _follow(self, name: str, args: Mapping[str, int]) -> bool:
        """After a forbidden action: do what the target did, if that is wanted and possible."""
        try:
            if self.after == "resync" and self.machine.force(name, args):
                return True
        except (UnknownName, BadArgument):
            pass
        self.lost = True
        return False

    def _refusal(self, event: Event, name: str, args: Mapping[str, int]) -> list[Violation]:
        try:
            if not self.machine.allows(name, args):
                return []
        except (UnknownName, BadArgument):
            return []
        short = SHORTAGE.search(event.reason)
        if short is not None:
            free = self.ledger.free(short[1], short[2] or "full")  # type: ignore[arg-type]
            if free is None or short[3] is None:
                self.unconfirmed += 1
                return []
            if free < int(short[3]):
                return []
            words = f"refused for want of {short[3]} slots, and {free} are free"
        else:
            words = f"false conflict: {name} was refused ({event.reason or 'no reason given'}), and nothing forbids it"
        return [
            Violation("permissiveness", event.seq, f"{name}/refusal", words, told(event), recent=self._recent(event))
        ]

    # Shown?
    def _compare(self, event: Event, touched: Set[int], found: list[Violation]) -> list[int]:
        """Hold what is shown to the model. Returns the nodes whose copies came, went or were handed on."""
        project, told_before, history = self.project, self._told, self.history
        post = event.post
        changed: list[int] = []
        for node, observed in post.items():
            before = told_before.get(node)
            expected = before if before is not None and node not in touched else project(node)
            if expected != observed or not self.sight.all:
                self._differ(event, node, expected, observed, found)
            elif self._excused:
                self._excused = {pair: how for pair, how in self._excused.items() if pair[0] != node}
            if expected is None:
                told_before.pop(node, None)
                changed.append(node)
                history.note(node, event)
                history.forget(node)
                continue
            if (
                before is None
                or before.full != expected.full
                or before.swa != expected.swa
                or before.mamba != expected.mamba
            ):
                changed.append(node)
            told_before[node] = expected
            history.note(node, event)
        for node in touched:
            if node not in post:
                self._unshown(event, node, changed, found)
        return changed

    def _differ(
        self, event: Event, node: int, expected: NodeState | None, observed: NodeState | None, found: list[Violation]
    ) -> None:
        if node == 0 and is_blank(observed):
            return
        self.unobserved += self.sight.unseen
        for field, wanted, got in self.sight.differences(expected, observed):
            how = _difference(wanted, got)
            if self._excused.get((node, field)) == how:
                continue
            self._excused[node, field] = how
            words = f"after {event.action} node {node} is as the protocol says"
            found.append(
                Violation(
                    "refinement", event.seq, f"{event.action}/{field}", words, told(event), node, field, wanted, got,
                    recent=self._recent(event, node),
                )
            )  # fmt: skip

    def _unshown(self, event: Event, node: int, changed: list[int], found: list[Violation]) -> None:
        """A node that the action may have changed and the event does not show."""
        expected, before = self.project(node), self._told.get(node)
        if expected == before:
            return
        if expected is None:
            del self._told[node]
            self.history.forget(node)
        else:
            self._told[node] = expected
        changed.append(node)
        if self.complete and node != 0 and self.sight.all:
            told_fields = list(self.sight.differences(expected, before))
            for field, wanted, got in told_fields:
                words = f"{event.action} shows every node that it changes"
                found.append(
                    Violation(
                        "refinement", event.seq, f"{event.action}/shown", words, told(event), node, field, wanted, got,
                        recent=self._recent(event, node),
                    )
                )  # fmt: skip

    # Slots
    def _book(self, event: Event, changed: Sequence[int], found: list[Violation]) -> None:
        if self._slots is None:
            self._slots = bool(event.slots)
        ledger = self.ledger
        said = [words for row in event.slots for words in ledger.book(row)]
        nodes = dict.fromkeys(changed)
        for row in event.slots:
            kind, owner = row[4]
            if kind == "node":
                nodes[owner] = None
        for node in nodes:
            said.extend(self._sizes(node))
        if event.action == "end_prefetch":
            left = ledger.owned.get(("holder", int(event.args.get("holder", -1))))
            if left:
                said.append(f"holder {event.args['holder']} is over and has {sum(left.values())} slots left")
        for words in dict.fromkeys(said):
            found.append(
                Violation(
                    "accounting", event.seq, f"{event.action}/slots", words, told(event), recent=self._recent(event)
                )
            )

    def _sizes(self, node: int) -> list[str]:
        """A node has slots exactly where the protocol says it has a copy, and as many on either tier."""
        state = self._told.get(node)
        held = self.ledger.owned.get(("node", node), _NO_SLOTS)
        said: list[str] = []
        for component in self.machine.components:
            tiers = None if state is None else getattr(state, component)
            device, host = held.get(("device", component), 0), held.get(("host", component), 0)
            on_device, on_host = _RESIDENT[tiers]
            if (device > 0) != on_device or (host > 0) != on_host or (device and host and device != host):
                said.extend(_miscounted(node, component, device, host, tiers))
        return said

    def _recent(self, event: Event, *nodes: int) -> tuple[Event, ...]:
        args = [v for k, v in event.args.items() if k != "holder" and isinstance(v, int)]
        return tuple(e for e in self.history.about(nodes or (*args, *event.post)) if e is not event)[-8:]


def _difference(wanted: object, got: object) -> object:
    """How two values of a field differ: counts by how much, for each component."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        return {part: much for part in {*wanted, *got} if (much := wanted.get(part, 0) - got.get(part, 0))}
    return wanted - got if isinstance(wanted, int) and isinstance(got, int) else (wanted, got)


_NO_SLOTS: dict[Pool, int] = {}
_RESIDENT = {t: ("d" in (t or "").lower(), "h" in (t or "").lower()) for t in (None, *get_args(Tiers))}


def _miscounted(node: int, component: Component, device: int, host: int, tiers: Tiers | None) -> Iterator[str]:
    if node == 0:
        return
    for tier, count, resident in zip(("device", "host"), (device, host), _RESIDENT[tiers], strict=True):
        if resident and not count:
            yield f"node {node} has a {tier} copy of {component} and no slots for it"
        elif count and not resident:
            yield f"node {node} has {count} {tier} {component} slots and no copy there: they are lost"
    if device and host and device != host:
        yield f"node {node} has {device} device and {host} host slots of {component}"
