"""What a batch of states leads to: for each call that fires, the new words of the states where it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .arrays import Array, Arrays
from .bits import Plane
from .planes import Planes
from .program import Effect, Program
from .shape import Shape


@dataclass(slots=True)
class Batch:
    """States of one shape that one call led to, not yet compared with any other.

    Attributes:
        columns: one array a word.
        sources: for each, the number (in the batch before) of the state that it came from.
        number: the call, as numbered by the universe.
    """

    shape: Shape
    columns: list[Array]
    sources: Array
    number: int


def successors(xp: Arrays, program: Program, planes: Planes, fires: Sequence[Plane], columns: Array) -> Iterator[Batch]:
    """Every batch that the calls of `program` lead to; `fires` is aligned with its firings, `columns` are the
    states.
    """
    for firing, plane in zip(program.firings, fires, strict=True):
        index = planes.indices(plane)
        if index is None:
            continue
        effects = program.effects(firing)
        if firing.compute is None:
            yield Batch(effects[0].shape, applied(xp, effects[0], columns, index, []), index, firing.number)
            continue
        computed = firing.compute(planes.planes, planes.one)
        rest = len(effects)
        for effect, given in zip(effects, computed, strict=False):
            literals = computed[rest : rest + len(effect.literals)]
            rest += len(effect.literals)
            chosen = index if len(effects) == 1 else planes.indices(given)
            if chosen is not None:
                values = planes.bits(literals, chosen)
                yield Batch(effect.shape, applied(xp, effect, columns, chosen, values), chosen, firing.number)


def applied(xp: Arrays, effect: Effect, columns: Array, index: Array, values: Sequence[Array]) -> list[Array]:
    """The words after `effect`, for the states numbered `index`; `values` are those that had to be computed."""
    old = [xp.take(column, index) for column in columns]
    new = list(old)
    for word, keep in effect.keep.items():
        found = old[word] & keep
        if always := effect.always.get(word):
            found |= always
        for source, shift, mask in effect.moves.get(word, ()):
            part = old[source] & mask
            if shift > 0:
                part <<= shift
            elif shift < 0:
                part = (part >> -shift) & ((1 << (64 + shift)) - 1)
            found |= part
        new[word] = found
    for (word, place), value in zip(effect.sometimes, values, strict=True):
        new[word] |= value << place
    return [new[w] for w in effect.order]
