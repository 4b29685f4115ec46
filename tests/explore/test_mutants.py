"""Each faulty protocol that the prover refutes goes wrong in a small cache too, by a trace that can be replayed."""

from __future__ import annotations

import pytest
from pinproof.model.machine import ReferenceMachine
from pinproof.model.mutants import MUTANTS
from pinproof.proofs.explore import explore

LADDER = [(1, 1), (2, 1), (1, 2), (2, 2)]
"""(nodes, holders), smaller universes first."""

LAST_VERDICT = {
    "property": "done",
    "promise": "violated",
    "never": "violated",
    "false conflict": "refused",
    "failure": "done",
    "foreign": "done",
}


UNJUSTIFIED = "nothing-loaded-although-there-was-something"
"""A refusal without a reason changes nothing: only the proof, which asks what else was possible, can tell."""

ONE_NAMESPACE = ("match-ignores-the-namespace", "storage-ignores-the-namespace", "split-forgets-the-namespace")
"""Nothing assigns a namespace (see `watched`), so caches that are enumerated have one: only the proof watches two."""


@pytest.mark.parametrize("identifier", [i for i in MUTANTS if i not in (UNJUSTIFIED, *ONE_NAMESPACE)])
def test_reached(identifier):
    mutant = MUTANTS[identifier]
    policy, components = next(mutant.bites())
    text = mutant.instance(policy, components)
    violation = next(
        found.violation
        for nodes, holders in LADDER
        if (found := explore(policy, components, nodes, holders, instance=text)).violation is not None
    )
    machine = ReferenceMachine(text)
    verdicts = [machine.step(step["action"], step["args"]).verdict for step in violation.trace]
    assert set(verdicts[:-1]) <= {"done"}
    assert verdicts[-1] == LAST_VERDICT[violation.kind]
