"""Work is spread over processes, and every answer comes back."""

from __future__ import annotations

import operator

import pytest
from pinproof.proofs.pool import cores, spread


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_answer_comes_back(jobs: int) -> None:
    told: list[tuple[int, int, str]] = []
    answers = spread(operator.neg, [3, 1, 2], jobs, lambda *x: told.append(x))
    assert sorted(answers) == [-3, -2, -1]
    assert [(done, total) for done, total, _ in told] == [(1, 3), (2, 3), (3, 3)]
    assert {what for _, _, what in told} == {"1", "2", "3"}


def test_a_failure_reaches_the_caller() -> None:
    with pytest.raises(TypeError):
        list(spread(operator.neg, ["word"], 1, None))


def test_there_is_a_core() -> None:
    assert cores() >= 1
