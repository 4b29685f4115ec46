"""What a target is: something that is configured, answers operations, and tells what it did as events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from ...model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy
from ..errors import ConformanceError
from ..events import FIELDS, FORMAT, Event, Header, Tier

CRASHED = "TargetCrashed"
"""The type of an answer's error when the code under test raised what it never should, ended, or did not answer."""


class Configuration(msgspec.Struct, frozen=True, omit_defaults=True):
    """Under what a target is to run; what it has no use for it ignores. Pages that are None: as many as of FULL.
    `storage` is a tier below the host: in memory, or a directory, whose pages of earlier runs are forgotten.

    Raises:
        ConformanceError: names the value that cannot be.
    """

    policy: Policy = "write_back"
    components: tuple[Component, ...] = ("full",)
    page_size: int = 1
    device_pages: int = 16
    host_pages: int = 16
    swa_device_pages: int | None = None
    swa_host_pages: int | None = None
    mamba_device_pages: int | None = None
    mamba_host_pages: int | None = None
    window: int = 3
    threshold: int = 2
    storage: bool | str = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConformanceError(f"policy: {self.policy!r} is none of {', '.join(POLICIES)}")
        if tuple(self.components) not in COMPONENT_SETS:
            raise ConformanceError(f"components: {'+'.join(self.components)} is no component set")
        for name in ("page_size", "device_pages", "host_pages", "window", "threshold"):
            if getattr(self, name) < 1:
                raise ConformanceError(f"{name}: {getattr(self, name)} is less than 1")

    def as_args(self) -> dict[str, Any]:
        """As arguments of `configure`."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {**found, "policy": self.policy, "components": list(self.components)}

    def choices(self) -> dict[str, Any]:
        """All but policy and components, as far as it is chosen: the `config` of a scenario."""
        return {k: v for k, v in self.as_args().items() if k not in ("policy", "components") and v is not None}


class Problem(msgspec.Struct):
    """Why an operation was not done: an expected answer, unless the type is `CRASHED`."""

    type: str
    message: str


class Answer(msgspec.Struct):
    """What a target says to one operation, and the events that it told meanwhile.

    `violations` is what the target itself (its pools, its own checks) found wrong.
    """

    ok: bool
    result: Any = None
    error: Problem | None = None
    events: list[Event] = []
    violations: list[dict[str, str]] = []
    id: int | None = None

    @property
    def crashed(self) -> bool:
        """The code under test is at fault, or gone."""
        return self.error is not None and self.error.type == CRASHED


class Capabilities(msgspec.Struct, omit_defaults=True):
    """What a configured target says of itself.

    Attributes:
        operations: those that it answers.
        sees: what it can see of nodes: fields of `NodeState`, or a worker's own words for them; None: everything.
        capacity: slots of each pool, where known.
        actions: `act` steers single actions of the model.
        complete: an event shows every node that it changed.
        namespaces: `match`, `insert` and `prefetch` take a `namespace`, a text.
    """

    operations: list[str] = []
    sees: list[str] | None = None
    capacity: dict[Tier, dict[Component, int]] = {}
    target: str = ""
    actions: bool = False
    complete: bool = True
    namespaces: bool = False


_WORDS = {
    "lock": ("lock_ref",),
    "host_lock": ("host_lock_ref",),
    "pin": ("load_back_pending_id",),
    "pending": ("write_through_pending_id",),
    "tracked": ("duplicate",),
    "lock.full": ("lock_ref.full",),
}


def fields_seen(sees: list[str] | None) -> list[str] | None:
    """Field names of `NodeState` from a worker's words: `device` and `host` are the copies, `pin` is the pin, …"""
    if sees is None:
        return None
    found: list[str] = ["full", "swa", "mamba", "stored"] if {"device", "host"} <= set(sees) else []
    for word in sees:
        found += [word] if word.partition(".")[0] in FIELDS else list(_WORDS.get(word, ()))
    return None if set(FIELDS) <= set(found) else list(dict.fromkeys(found))


class Target(Protocol):
    """A cache, or its model, that can be driven and watched."""

    name: str
    capabilities: Capabilities

    def configure(self, configuration: Configuration) -> Answer:
        """Start anew; `capabilities` are known from then on."""

    def op(self, name: str, **args: Any) -> Answer:
        """One operation. Never raises for what the target does; a target that ended answers `CRASHED`."""

    def close(self) -> None:
        """Let go of whatever the target holds."""


class OneByOne:
    """A target that takes one operation at a time, asked for several: what `send` asks for, `receive` answers."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._answers: list[Answer] = []

    def send(self, requests: Sequence[dict[str, Any]]) -> None:
        """Do them."""
        self._answers = [
            self._target.op(each["op"], **{k: v for k, v in each.items() if k != "op"}) for each in requests
        ]

    def receive(self) -> list[Answer]:
        """What came of them."""
        return self._answers


def header_of(target: Target, configuration: Configuration, *, seed: int | None = None, reproduce: str = "") -> Header:
    """The first line of a trace of a configured target."""
    told = target.capabilities
    return Header(
        FORMAT, configuration.policy, configuration.components, target.name, configuration.page_size,
        fields_seen(told.sees), told.capacity, seed, reproduce,
    )  # fmt: skip


def refused(kind: str, words: str, events: list[Event] | None = None) -> Answer:
    """An answer that declines."""
    return Answer(False, None, Problem(kind, words), events or [])
