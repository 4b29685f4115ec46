"""Single actions of a scenario as operations, for targets that take no single actions.

An operation is chosen that brings the action about; what comes with it counts for the steps that follow. So a target
may be ahead of the scenario, and then a step that asks for a refusal, or looks at a state, has nothing to ask or see.
Tops of windows and of backups are the target's own and are not compared. What an operation cannot be found for, or what
the target's own order makes of it, is a reason, not a violation: everything is checked against the model all the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from .events import Event, action_of
from .scenario import Scenario, Step
from .session import Session
from .situation import Operation, operation

NOTHING = "nothing"
ASIDE = ("attach_aux", "backup_aux", "lock", "unlock")
"""Actions that come along, and change nothing that a step shows."""
CHOSEN = {"top", "base", "boundary", "locked", "host_locked"}
"""Arguments that are the target's own."""
FAILS = {"fail_backup": "backup", "fail_load_back": "load_back", "fail_storage_backup": "storage_backup"}
"""Actions that have to be arranged for before their operation begins, and how."""


class Derivation:
    """Takes the steps of a scenario on a session, one after the other."""

    def __init__(self, scenario: Scenario, session: Session) -> None:
        self.session = session
        self.names = {"root": 0}
        self._steps = scenario.step
        self._first = {
            name: step for step in reversed(scenario.step) if step.expect == "done" for name in step.args.values()
        }
        self._tokens: dict[str, tuple[int, ...]] = {"root": ()}
        self._fresh = 0
        self._come: list[Event] = []
        """Done events that no step has asked for yet; `_used`: where the last one was that a step has."""
        self._used = 0
        self._said = ""

    def take(self, number: int) -> str | None:
        """Bring the step about. None if that went well, else why it cannot be."""
        step = self._steps[number]
        if step.expect == "refused":
            return self._refusal(number, step)
        if self._found(step):
            return None
        for fault in self._arranged(number, step):
            if self._perform(fault) or self.session.over:
                return f"{fault.name}: {self._said}"
        tried, barren = list(self._operations(number, step)), set[str]()
        said: list[str] = []
        for asked in tried:
            if asked.name in barren:
                continue
            if self._perform(asked) or self._said == NOTHING:
                barren.add(asked.name)
            said += self._said.split(", ")
            if self.session.over or self._found(step):
                return None
            if came := self._later(number):
                return f"{asked.name} brings about {came} before it"
        if not tried:
            return "no operation brings it about by itself"
        return f"{tried[0].name} does not bring it about, but {', '.join(dict.fromkeys(said))}"

    def ahead(self, number: int) -> bool:
        """What has been done is more than the steps up to here, so the state is not what this one shows."""
        more = any(not event.action.startswith(ASIDE) for event in self._come[self._used :])
        running = self.session.situation.among("operation")
        others = any(event.args.get("holder") in running for event in self._come)
        return more or others or bool(self._later(number))

    def _later(self, number: int) -> str:
        """The action of a later step that has come already; empty if none has."""
        later = (s for s in self._steps[number + 1 :] if s.expect == "done")
        return next((s.action for s in later if self._match(s) is not None), "")

    def _refusal(self, number: int, step: Step) -> str | None:
        if came := self._later(number):
            return f"{came} came with the operation before, so nothing is in its way"
        asked = next(self._operations(number, step), None)
        if asked is None:
            return "no operation asks for it by itself"
        self._perform(asked)
        if not self.session.over and self._match(step) is not None:
            return f"{asked.name} waits until nothing is in its way"
        return None

    def _perform(self, asked: Operation) -> bool:
        """Whether the target declined."""
        if asked.name not in self.session.operations:
            self._said = f"there is no operation {asked.name}"
            return True
        answer = self.session.perform(asked)
        assert answer is not None
        done = [event for event in answer.events if event.outcome == "done"]
        self._come += done
        said = ", ".join(event.action for event in done) or NOTHING
        self._said = answer.error.message if answer.error is not None else said
        return not answer.ok

    # Events
    def _found(self, step: Step) -> bool:
        """Whether the step's event has come; then its names are known, and it is used up."""
        at = self._match(step)
        if at is None:
            return False
        event, self._used = self._come.pop(at), at
        _, args = action_of(event)
        for parameter, name in step.args.items():
            if name not in self.names and parameter in args:
                self.names[name] = args[parameter]
        if step.action == "split":
            self._tokens[step.args["prefix"]] = self._prefix(step)
        return True

    def _match(self, step: Step) -> int | None:
        """Where the step's event is among those that have come; names that are new with the step may be anybody's."""
        for number, event in enumerate(self._come):
            action, args = action_of(event)
            if action == step.action and all(
                self.names[name] == args[parameter] if name in self.names else self._first.get(name) is step
                for parameter, name in step.args.items()
                if parameter not in CHOSEN and parameter in args
            ):
                return number
        return None

    # Operations
    def _operations(self, number: int, step: Step) -> Iterator[Operation]:
        """What may bring the action about, the likeliest first."""
        action, _, component = step.action.partition(".")
        node = self.names.get(step.args.get("node", ""))
        holder = self.names.get(step.args.get("holder", ""))
        again = len(self._steps)
        """So often something is asked for that others may be the first to get."""
        pages = self._pages(step.args.get("node", ""))
        match action:
            case "insert_leaf":
                yield operation("insert", tokens=list(self._grown(step.args["parent"], step.args["leaf"])))
            case "unevict" | "attach_aux":
                yield operation("insert", tokens=list(self._tokens[step.args["node"]]))
            case "split":
                yield operation("match", tokens=list(self._prefix(step)))
            case "lock" | "storage_backup":
                yield operation(action, node=node)
            case "unlock" | "release_window" | "forward":
                yield operation(action, holder=holder)
            case "begin_backup":
                yield operation("backup", node=node)
                yield from [operation("evict", component="full", pages=pages)] * again
            case "begin_load_back" | "commit_load_back" | "refuse_load_back":
                yield operation("load_back", node=node)
            case "begin_storage_backup":
                yield operation("storage_backup", node=node)
            case "ack_backup" | "ack_load_back" | "fail_backup" | "fail_load_back":
                # Nodes above may have backups of their own, which no step names, and which are acknowledged first.
                yield from [operation("poll", kind=action.partition("_")[2], count=1)] * again
                yield operation("wait", holder=holder)
            case "ack_storage_backup" | "fail_storage_backup":
                yield operation("poll", kind="storage", count=1)
                yield operation("wait", holder=holder)
            case "demote" | "delete_leaf" | "drop_subtree":
                yield from [operation("evict", component="full", pages=pages)] * again
            case "evict_device_aux":
                yield operation("evict", component=component, pages=pages)
            case "evict_host_leaf" | "evict_host_aux":
                yield from [operation("evict_host", component=component or "full", pages=pages)] * again
            case "reclaim_duplicate":
                yield from [operation("reclaim", pages=pages)] * again
            case "begin_prefetch":
                leaf = next((s.args["leaf"] for s in self._steps[number:] if s.action == "insert_host"), "pages")
                yield operation("prefetch", tokens=list(self._grown(step.args["node"], leaf)))
            case "complete_prefetch" | "insert_host" | "end_prefetch":
                yield operation("finish_prefetch", holder=holder)
            case "abort_load_back":
                yield operation("abort", holder=holder)
            case "reset":
                yield operation("reset")

    def _arranged(self, number: int, step: Step) -> Iterator[Operation]:
        """A copy that a later step wants to fail is told to, before it begins."""
        for later in self._steps[number + 1 :]:
            kind = FAILS.get(later.action)
            same = later.args.get("holder") == step.args.get("holder")
            if kind is not None and same and step.action == f"begin_{kind}":
                yield operation("fail", kind=kind, fault="failed")

    def _grown(self, parent: str, leaf: str) -> tuple[int, ...]:
        """The tokens up to a new node: more than a window of its own, unless that of a step is to reach beyond it."""
        if leaf not in self._tokens:
            chosen = self.session.configuration
            named = [s.args for s in self._steps if s.args.get("node") == leaf]
            beyond = any(args.get("boundary", leaf) != leaf for args in named)
            splits = sum(s.action == "split" and s.args["node"] == leaf for s in self._steps)
            size = chosen.page_size * max(1 + splits, 0 if beyond else chosen.window + 1)
            own = range(self._fresh + 1, self._fresh + 1 + size)
            self._fresh += size
            self._tokens[leaf] = (*self._tokens[parent], *own)
        return self._tokens[leaf]

    def _prefix(self, step: Step) -> tuple[int, ...]:
        """The tokens up to where a node is split: it keeps as many as the splits to come need."""
        at = next(number for number, each in enumerate(self._steps) if each is step)
        node = step.args["node"]
        left = sum(s.action == "split" and s.args["node"] == node for s in self._steps[at:])
        return self._tokens[node][: -left * self.session.configuration.page_size]

    def _above(self, node: str) -> tuple[int, ...]:
        """The tokens up to where the node begins."""
        whole = self._tokens[node]
        return max((t for t in self._tokens.values() if t != whole and whole[: len(t)] == t), key=len)

    def _pages(self, node: str) -> int:
        if node not in self._tokens or node == "root":
            return 1
        size = self.session.configuration.page_size
        return max(1, (len(self._tokens[node]) - len(self._above(node))) // size)
