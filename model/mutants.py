"""Faulty protocols, each from a public report, each with the obligation that must catch it.

A mutant that proves is a failed run: it would mean that no property and no promise forbids what really went wrong.
"""

from __future__ import annotations

from . import faults_of_bookkeeping, faults_of_rules, faults_of_timing
from .errors import UnknownName
from .mutant import SHAPES, Mutant

__all__ = ["MUTANTS", "SHAPES", "Mutant", "mutant"]

MUTANTS: dict[str, Mutant] = {
    m.id: m
    for shape in SHAPES
    for room in (faults_of_timing, faults_of_bookkeeping, faults_of_rules)
    for m in room.MUTANTS
    if m.shape == shape
}
"""Every mutant by id, in the order of their shapes."""


def mutant(identifier: str) -> Mutant:
    """The mutant of that id.

    Raises:
        UnknownName: there is none.
    """
    if identifier not in MUTANTS:
        raise UnknownName("mutant", identifier, list(MUTANTS))
    return MUTANTS[identifier]
