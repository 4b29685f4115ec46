"""Two-phase commit (Gray and Lamport, "Consensus on Transaction Commit", 2006) in the algebra of the protocol: a
calibration oracle.

How many states it has is well known, so that an explorer that counts otherwise is wrong. Resource managers are
holders; what the transaction manager knows, and the messages that are not from one manager, are marks of the root.
Messages are never taken away, as in the paper.
"""

from __future__ import annotations

from ..model.algebra import (
    HOLDER,
    NODE,
    ROOT,
    Action,
    Assign,
    Formula,
    Guard,
    Parameter,
    Relation,
    Step,
    Var,
    one,
    some_holder,
)
from ..model.properties import Property
from .program import System

STATES = {3: 288, 5: 8_832, 7: 296_448, 8: 1_745_408, 9: 10_340_352, 10: 61_515_776}
"""Reachable states by the number of resource managers; up to 9 as published, 10 as counted here."""

_prepared = Relation("prepared", (HOLDER,), "is prepared")
_committed = Relation("committed", (HOLDER,), "has committed")
_aborted = Relation("aborted", (HOLDER,), "has aborted")
_known_prepared = Relation("known_prepared", (HOLDER,), "is known by the transaction manager to be prepared")
_sent_prepared = Relation("sent_prepared", (HOLDER,), "has sent that it is prepared")
_decided_commit = Relation("decided_commit", (NODE,), "the transaction manager has committed")
_decided_abort = Relation("decided_abort", (NODE,), "the transaction manager has aborted")
_sent_commit = Relation("sent_commit", (NODE,), "the order to commit has been sent")
_sent_abort = Relation("sent_abort", (NODE,), "the order to abort has been sent")

_OF_MANAGERS = (_prepared, _committed, _aborted, _known_prepared, _sent_prepared)
_OF_THE_ROOT = (_decided_commit, _decided_abort, _sent_commit, _sent_abort)

_RM = Var("rm", HOLDER)
_OTHER = Var("other", HOLDER)


def two_phase_commit() -> System:
    """The protocol; explore it with no node besides the root, and as many holders as there are resource managers."""
    undecided = ~_decided_commit(ROOT) & ~_decided_abort(ROOT)
    working = ~(_prepared(_RM) | _committed(_RM) | _aborted(_RM))
    actions = (
        _action("tm_rcv_prepared", True, undecided & _sent_prepared(_RM), _known_prepared),
        _action(
            "tm_commit", False, undecided & ~some_holder(lambda x: ~_known_prepared(x)), _decided_commit, _sent_commit
        ),
        _action("tm_abort", False, undecided, _decided_abort, _sent_abort),
        _action("rm_prepare", True, working, _prepared, _sent_prepared),
        _action("rm_choose_to_abort", True, working, _aborted),
        _action("rm_rcv_commit", True, _sent_commit(ROOT), _committed, clears=(_prepared, _aborted)),
        _action("rm_rcv_abort", True, _sent_abort(ROOT), _aborted, clears=(_prepared, _committed)),
    )
    agree = Property(
        "consistent", "consistent", "safety", "No two resource managers decide differently.", "Gray and Lamport 2006",
        (_RM, _OTHER), ~(_aborted(_RM) & _committed(_OTHER)),
    )  # fmt: skip
    return System(
        "two-phase commit", (*_OF_MANAGERS, *_OF_THE_ROOT), {a.name: a for a in actions}, (agree,), at_root=frozenset()
    )


def _action(name: str, of_manager: bool, guard: Formula, *sets: Relation, clears: tuple[Relation, ...] = ()) -> Action:
    steps: list[Step] = [Guard("expect", "enabled", guard, "it is enabled")]
    for relation, value in [*((r, False) for r in clears), *((r, True) for r in sets)]:
        at_manager = relation.sorts == (HOLDER,)
        steps.append(Assign(relation, value, None if at_manager else one(ROOT), _RM if at_manager else None))
    return Action(name, name.replace("_", " "), (Parameter(_RM, "any"),) if of_manager else (), tuple(steps))
