"""The vocabulary of traces: a header, events, and what can be seen of a node. Strict to read, small to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from ..model.vocabulary import COMPONENTS, Component, Policy
from .errors import BadEvent

FORMAT = "pinproof/1"
"""The version that recordings carry. A reader of this version reads all of `pinproof/1`."""

Outcome = Literal["done", "refused"]
Tiers = Literal["D", "d", "H", "h", "DH", "Dh", "dH", "dh"]
"""D: bytes on the device, d: slots there, bytes under way; H and h the same for the host."""
Count = Annotated[int, msgspec.Meta(ge=0)]
NodeId = Count
Verb = Literal["take", "give", "move"]
Tier = Literal["device", "host"]
Owner = tuple[Literal["node", "holder"], Count]
Row = tuple[Verb, Tier, Component, list[Count], Owner]
"""What a pool gave, took back, or saw pass to another owner, in one transition."""


class NodeState(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """What can be seen of one node; a field that is left out has its default."""

    full: Tiers | None = None
    swa: Tiers | None = None
    mamba: Tiers | None = None
    lock_ref: dict[Component, Count] = {}
    host_lock_ref: dict[Component, Count] = {}
    load_back_pending_id: Count | None = None
    write_through_pending_id: Count | None = None
    duplicate: bool = False
    stored: bool = False

    def seen(self) -> dict[str, Any]:
        """The fields that are not at their default."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


NOTHING = NodeState()
FIELDS: tuple[str, ...] = NodeState.__struct_fields__


class Event(msgspec.Struct, omit_defaults=True, gc=False):
    """One atomic transition of the protocol as a target tells it.

    Attributes:
        seq: counts from 0 without gaps.
        action: its name in the protocol text, without a component.
        args: nodes and holders by name, and the component of a per-component action.
        outcome: a refused event changed nothing; `reason` says why.
        slots: what the pools gave and took.
        post: the state of nodes after it; None: no longer in the tree.
        namespace: that of the node or operation that it begins; empty: that of those who have named none.
    """

    seq: Count
    action: str
    args: dict[str, int | str]
    outcome: Outcome
    reason: str = ""
    slots: list[Row] = []
    post: dict[NodeId, NodeState | None] = {}
    tag: str = ""
    namespace: str = ""


class Header(msgspec.Struct, omit_defaults=True):
    """The first line of a trace: under what it was recorded.

    Attributes:
        sees: fields of `NodeState` that the target can see, or parts of one as `lock_ref.full`; None: all.
        capacity: slots of each pool by tier and component, where known.
        seed, reproduce: how to get the same trace again.
    """

    trace: str
    policy: Policy
    components: tuple[Component, ...]
    target: str = ""
    page_size: int = 1
    sees: list[str] | None = None
    capacity: dict[Tier, dict[Component, int]] = {}
    seed: int | None = None
    reproduce: str = ""

    def __post_init__(self) -> None:
        if self.trace != FORMAT:
            raise ValueError(f"trace: {self.trace!r} is a format that this reader does not know ({FORMAT})")
        if list(self.components) != [c for c in COMPONENTS if c in self.components] or "full" not in self.components:
            raise ValueError(f"components: {list(self.components)} is not full and some of swa, mamba, in this order")
        unknown = [name for name in self.sees or () if name.partition(".")[0] not in FIELDS]
        if unknown:
            raise ValueError(f"sees: {unknown} are no fields of a node")


def convert_event(raw: Mapping[str, Any]) -> Event:
    """An event from the dict that a target in this process hands out.

    Raises:
        BadEvent: names the field.
    """
    try:
        return msgspec.convert(raw, Event, str_keys=True)
    except msgspec.ValidationError as error:
        raise BadEvent(f"event {raw.get('seq', '?')}: {error}") from None


def action_of(event: Event) -> tuple[str, dict[str, int]]:
    """The model's name of the action, and its arguments: `attach_aux` of swa is `attach_aux.swa`."""
    args = event.args
    component = args.get("component")
    if component is None:
        return event.action, args  # type: ignore[return-value]
    return f"{event.action}.{component}", {k: v for k, v in args.items() if k != "component"}  # type: ignore[misc]


def counted_as(event: Event) -> str:
    """The name under which coverage counts an event."""
    return event.action if event.outcome == "done" else f"{event.action} refused"


def event_args(name: str, args: Mapping[str, int]) -> tuple[str, dict[str, int | str]]:
    """The other way round: action and arguments as an event has them."""
    action, _, component = name.partition(".")
    return action, {**args, **({"component": component} if component else {})}
