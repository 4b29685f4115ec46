"""The reference machine as a target: it does single actions (`act`), and tells them as any cache would."""

from __future__ import annotations

from typing import Any

from ...model.errors import BadArgument, UnknownName
from ...model.machine import ReferenceMachine
from ..events import Event, event_args
from ..projection import Projector
from .base import Answer, Capabilities, Configuration, refused


class ReferenceTarget:
    """The protocol text, executed. It has no slots and no bytes, and nothing of its own to choose."""

    name = "reference"

    def __init__(self) -> None:
        self.capabilities = Capabilities(["act", "reset", "audit"], target="reference", actions=True)
        self._machine: ReferenceMachine | None = None
        self._seq = 0

    def configure(self, configuration: Configuration) -> Answer:
        """An empty tree."""
        self._machine = ReferenceMachine(configuration.policy, configuration.components)
        self._project = Projector(self._machine)
        self._seq = 0
        return Answer(True, {"target": self.name})

    def op(self, name: str, **args: Any) -> Answer:
        """`act(action, args)`, `reset()` or `audit()`."""
        if self._machine is None:
            return refused("RefusedUnconfigured", "configure it first")
        if name == "act":
            return self._act(str(args.get("action")), dict(args.get("args") or {}))
        if name == "reset":
            return self._act("reset", {})
        if name == "audit":
            return Answer(True, {"problems": [], "idle": not self._machine.state.holders()})
        return refused("RefusedOperation", f"no operation {name!r}")

    def close(self) -> None:
        """Nothing to let go of."""

    def _act(self, action: str, args: dict[str, int]) -> Answer:
        assert self._machine is not None
        try:
            outcome = self._machine.step(action, args)
        except (UnknownName, BadArgument) as error:
            return refused("ArgumentError", str(error))
        if outcome.verdict == "senseless":
            assert outcome.guard is not None
            return Answer(True, {"steered": True, "outcome": "senseless", "reason": outcome.guard.words})
        said, own = event_args(action, args)
        done = bool(outcome)
        reason = outcome.guard.words if outcome.guard is not None else ""
        shown = outcome.touched if done else {v for k, v in args.items() if k != "holder"}
        post = {node: self._project(node) for node in sorted(shown)}
        event = Event(self._seq, said, own, "done" if done else "refused", reason, [], post)
        self._seq += 1
        return Answer(True, {"steered": True, "outcome": event.outcome, "reason": reason}, None, [event])
