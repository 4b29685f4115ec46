"""What an action's text is given: the static choices, and the kinds of its arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from ..algebra import Var
from ..vocabulary import WRITE_BACK, WRITE_THROUGH, Component, Policy, aux

Live = Annotated[Var, "live"]
Inner = Annotated[Var, "inner"]
Fresh = Annotated[Var, "fresh"]
Idle = Annotated[Var, "idle"]
Holder = Annotated[Var, "any"]


@dataclass(frozen=True, slots=True)
class Setting:
    """The static choices of one instance of the protocol."""

    policy: Policy
    components: tuple[Component, ...]

    @property
    def write_back(self) -> bool:
        """Host copies are made when the device needs room, not as soon as there is something to copy."""
        return self.policy == WRITE_BACK

    @property
    def aux(self) -> tuple[Component, ...]:
        """SWA and MAMBA, as far as they exist here."""
        return aux(self.components)


Text = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Entry:
    """An action's text and where it applies."""

    text: Text
    policies: tuple[Policy, ...]
    per_aux: bool


TEXT: dict[str, Entry] = {}
"""Every action by name, in the order of this file."""


def action(
    *, policies: tuple[Policy, ...] = (WRITE_BACK, WRITE_THROUGH), per_aux: bool = False
) -> Callable[[Text], Text]:
    """Register an action; `per_aux` makes one of it for each of SWA and MAMBA."""

    def register(text: Text) -> Text:
        TEXT[text.__name__] = Entry(text, policies, per_aux)
        return text

    return register
