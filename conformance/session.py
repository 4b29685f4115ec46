"""One run: a configured target, the checker that follows it, and everything that is held against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.algebra import Parameter
from .attribution import Attribution
from .checker import After, Checker
from .dialects import WINDOW_TOPS
from .ending import finish
from .events import Event, Header
from .situation import NOBODY, Operation, Situation, operation
from .targets.base import Answer, Configuration, Target, header_of
from .trace import TraceWriter
from .violation import Kind, Violation

if TYPE_CHECKING:
    from .deviations import Deviation

ARRIVALS = {
    "insert_leaf", "unevict", "attach_aux", "split", "ack_backup", "ack_load_back", "insert_host", "attach_host_aux",
    "reclaim_duplicate", "demote",
}  # fmt: skip
"""After these, the bytes of the nodes that the event shows are read back."""

EXPECTED_ERRORS = ("Refused", "Argument")
"""How types of errors begin that a driver may meet."""

_REPORTED: dict[str, Kind] = {
    "freed during a copy": "safety", "freed under a lock": "safety", "freed in use": "safety", "wrong bytes": "bytes",
}  # fmt: skip
"""What a target's own pools report, as kinds of violations."""

DAMAGE = ("safety", "bytes", "crash")
"""After a known deviation has done this, what follows from it cannot be told from what does not: the run is over."""

_MEANT = {"lock": "lock", "storage_backup": "begin_storage_backup"}
"""Operations that are one action: refusing them is refusing it."""


class Session:
    """Performs operations on a target and checks every event.

    Args:
        target: need not be configured yet; `start` does that.
        writer: makes the trace, given its header.
        after: what the checker does after a violation.
        audit_every: operations between two audits of everything; 0: never.
        read: read the bytes of copies back when they have arrived.
        renaming: single actions are asked for with the ids of another run, whose log they come from.
        listen: called with every event.
        known: the deviations that the target is known to have; those are counted, and followed.

    Attributes:
        done: operations performed.
        known: how often each known deviation was seen.
        violations: what was found, in order.
        log: every operation performed, for replay and shrinking, if it is kept.
        last: the answer to the last operation, if it was performed by itself.
        reads: bytes are read back.
    """

    def __init__(
        self,
        target: Target,
        configuration: Configuration,
        *,
        trace: Path | None = None,
        after: After = "stop",
        audit_every: int = 24,
        seed: int | None = None,
        keep_log: bool = True,
        read: bool = True,
        renaming: bool = False,
        reproduce: str = "",
        listen: Callable[[Event], None] | None = None,
        known: Sequence[Deviation] | None = None,
    ) -> None:
        self.target = target
        self.configuration = configuration
        self.done = 0
        self.events = 0
        self.violations: list[Violation] = []
        self.log: list[Operation] = []
        self.last: Answer | None = None
        self.known: Counter[str] = Counter()
        self._crashed = False
        self._damaged = False
        self.keep_log = keep_log
        self.audit_every = audit_every
        self._listen = listen
        answer = target.configure(configuration)
        self.header: Header = header_of(target, configuration, seed=seed, reproduce=reproduce)
        follow: After = "resync" if known is not None else after
        self.checker = Checker.of(self.header, after=follow, complete=target.capabilities.complete)
        self.deviations = known
        self._attribution = Attribution(known, self.checker.machine.state) if known is not None else None
        self.situation = Situation(self.checker.machine)
        self.operations = set(target.capabilities.operations)
        self.reads = read and "read" in self.operations
        self._renamed: dict[tuple[str, int], int] | None = {("node", 0): 0} if renaming else None
        self._writer = TraceWriter(trace, self.header) if trace is not None else None
        self._stop = after == "stop"
        if not answer.ok:
            self._crash(answer, "configure")

    @property
    def over(self) -> bool:
        """Nothing more is to be asked: the target ended, or something was found and that is enough."""
        return self.checker.lost or self._crashed or self._damaged or (self._stop and bool(self.violations))

    def perform(self, asked: Operation) -> Answer | None:
        """One operation, with its picks answered; None if there was nothing to pick from."""
        self.last = None
        args = self.situation.resolve(asked.args)
        if args is None:
            return None
        answer = self.last = self.target.op(asked.name, **self.given(asked.name, args))
        self.take(asked, args, answer)
        if self.over:
            return answer
        if self.reads and (arrived := self.arrived(answer.events)):
            self.problems(self.target.op("read", nodes=arrived), "bytes/read")
        if self.audit_every and not self.done % self.audit_every:
            self.audit()
        return answer

    def given(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """Arguments as the target is given them: those of a single action under the names of this run."""
        if name != "act" or self._renamed is None:
            return args
        fresh = {q.var.name for q in self._parameters(args["action"]) if q.kind in ("fresh", "idle")}
        own = {
            k: self._renamed.get((_kind(k), v), v if k in fresh else NOBODY) for k, v in args["args"].items()
        }  # fmt: skip
        return {**args, "args": own}

    def take(self, asked: Operation, args: dict[str, Any], answer: Answer) -> None:
        """Check what the target said to one operation.

        Args:
            asked: as the log is to have it.
            args: those of `asked` with its picks answered.
        """
        self.done += 1
        if asked.name == "act":
            self._acted(args["action"], args["args"], answer)
        elif self.keep_log:
            self.log.append(asked)
        self._absorb(answer)
        if answer.error is not None:
            self._judge_error(asked.name, args, answer)
        self._set_known_apart()

    def _set_known_apart(self) -> None:
        """Known deviations are counted; only what is not known is held against the target."""
        if self._attribution is None or not self.violations:
            return
        rest = []
        for violation in self.violations:
            name = self._attribution.name(violation)
            if name is None:
                rest.append(violation)
            else:
                self.known[name] += 1
                self._damaged |= violation.kind in DAMAGE
        self.violations = rest

    def _acted(self, action: str, args: dict[str, int], answer: Answer) -> None:
        """One action of the model. It is logged with the ids that the target chose, if it was taken at all."""
        result = answer.result if isinstance(answer.result, dict) else {}
        names = result.get("names", {})
        if self._renamed is not None:
            self._renamed.update(((_kind(k), args[k]), made) for k, made in names.items() if k in args)
        if self.keep_log and (result.get("steered") or answer.crashed):
            self.log.append(
                operation("act", action=action, args={**args, **({} if self._renamed is not None else names)})
            )

    def _parameters(self, action: str) -> tuple[Parameter, ...]:
        known = self.checker.machine.instance.actions.get(action)
        return known.parameters if known is not None else ()

    def _absorb(self, answer: Answer) -> None:
        check = self.checker.check
        for event in answer.events:
            if event.seq != self.events:
                words = f"seq is {event.seq}, and {self.events} would be next"
                self.violations.append(Violation("refinement", event.seq, "trace/seq", words))
            self.events = event.seq + 1
            if self._writer is not None:
                self._writer.write(event)
            if self._listen is not None:
                self._listen(event)
            if self._attribution is not None:
                self._attribution.saw(event)
            self.violations.extend(check(event))
            self._set_known_apart()
        for told in answer.violations:
            what = told.get("kind", "")
            words = f"{what}: {told.get('message', '')}"
            kind: Kind = _REPORTED.get(what, "accounting")
            self.violations.append(Violation(kind, self.events - 1, f"target/{what.replace(' ', '-')}", words))

    @staticmethod
    def arrived(events: Iterable[Event]) -> list[int]:
        """The nodes of which these events bring bytes."""
        found: dict[int, None] = {}
        for event in events:
            if event.action in ARRIVALS and event.outcome == "done":
                found.update((node, None) for node, state in event.post.items() if state is not None and node)
        return list(found)

    def _judge_error(self, name: str, args: dict[str, Any], answer: Answer) -> None:
        assert answer.error is not None
        if not answer.error.type.startswith(EXPECTED_ERRORS):
            self._crash(answer, name)
            return
        node = args.get("node")
        if answer.events or not isinstance(node, int) or answer.error.type not in ("Refused", "RefusedNotReady"):
            return
        action = _MEANT.get(name)
        if action is None:
            return
        machine = self.checker.machine
        wanted = {q.var.name for q in machine.instance.actions[action].parameters}
        given = {"node": node, "holder": -1, **dict.fromkeys(WINDOW_TOPS, node)}
        if machine.allows(action, {k: v for k, v in given.items() if k in wanted}):
            words = f"{name}(node={node}) was refused ({answer.error.message}), and nothing forbids {action}"
            self.violations.append(Violation("permissiveness", self.events - 1, f"{action}/refusal", words))

    def _crash(self, answer: Answer, name: str) -> None:
        assert answer.error is not None
        self._crashed = True
        words = f"{name}: {answer.error.type}: {answer.error.message}"
        self.violations.append(Violation("crash", self.events - 1, "target/crash", words))

    def audit(self) -> None:
        """The target looks at all it has."""
        if "audit" in self.operations:
            self.problems(self.target.op("audit"), "target/audit")

    def problems(self, answer: Answer, rule: str) -> None:
        """What the target found when it was asked to read or to look."""
        self._absorb(answer)
        if not answer.ok:
            self._crash(answer, rule)
            return
        for words in (answer.result or {}).get("problems", ()):
            kind: Any = "bytes" if "bytes" in words else "accounting"
            self.violations.append(Violation(kind, self.events - 1, rule, words))
        self._set_known_apart()

    # Ends
    def finish(self) -> None:
        """Let go of everything, let all copies end: nothing may be held then, and no slot be out after a reset."""
        self.keep_log = False
        finish(self)

    def _one_by_one(self, asked: Iterable[Operation]) -> None:
        for each in asked:
            self.perform(each)
            if self.over:
                break

    def close(self) -> None:
        """The trace is complete. The target stays as it is."""
        if self._writer is not None:
            self._writer.close()

    def run(self, asked: Iterable[Operation], *, finish: bool = True, by: Performer | None = None) -> list[Violation]:
        """Perform operations until something is found; returns what was. `by`: otherwise than one by one."""
        try:
            (by or Session._one_by_one)(self, asked)
            if finish and not self.over:
                self.finish()
        finally:
            self.close()
        return self.violations


Performer = Callable[[Session, Iterable[Operation]], None]
"""Performs a run on a session."""


def _kind(parameter: str) -> str:
    return "holder" if parameter == "holder" else "node"
