"""Boolean expressions over the bits of a state, kept as one graph without duplicates, and printed as straight-line
Python.

An expression is a literal, an integer: twice the number of a graph node, plus one where it is negated. Node 0 is
false, so that `FALSE` is 0 and `TRUE` is 1. Every other node is a variable (a bit of the state) or the conjunction
of two literals. Equal expressions are the same integer, and constants fold as soon as they appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

FALSE = 0
TRUE = 1

Plane = Any
"""One boolean of a batch of states: a Python integer, or an array of 64-bit words, one bit a state."""


class Bits:
    """The graph. Nodes are numbered in the order of their making, operands before users."""

    __slots__ = ("_ands", "_vars", "left", "right")

    def __init__(self) -> None:
        self.left: list[int] = [-1]
        self.right: list[int] = [-1]
        self._ands: dict[tuple[int, int], int] = {}
        self._vars: dict[int, int] = {}

    def var(self, bit: int) -> int:
        """The literal of bit number `bit`."""
        found = self._vars.get(bit)
        if found is None:
            found = self._vars[bit] = 2 * len(self.left)
            self.left.append(-1)
            self.right.append(bit)
        return found

    def bit_of(self, literal: int) -> int | None:
        """The bit that a literal, negated or not, is about; None for constants and conjunctions."""
        node = literal >> 1
        return self.right[node] if node and self.left[node] < 0 else None

    def both(self, a: int, b: int) -> int:
        """`a` and `b`."""
        if a > b:
            a, b = b, a
        if a == FALSE or a ^ 1 == b:
            return FALSE
        if a in (TRUE, b):
            return b
        for x, y in ((a, b), (b, a)):
            left, right = self.left[y >> 1], self.right[y >> 1]
            if left < 0:
                continue
            if y & 1:
                if x in (left ^ 1, right ^ 1):
                    return x
                if x == left:
                    return self.both(x, right ^ 1)
                if x == right:
                    return self.both(x, left ^ 1)
            elif x in (left, right):
                return y
            elif x in (left ^ 1, right ^ 1):
                return FALSE
        found = self._ands.get((a, b))
        if found is None:
            found = self._ands[a, b] = 2 * len(self.left)
            self.left.append(a)
            self.right.append(b)
        return found

    def either(self, a: int, b: int) -> int:
        """`a` or `b`."""
        return self.both(a ^ 1, b ^ 1) ^ 1

    def all(self, literals: Iterable[int]) -> int:
        """Every one of them."""
        found = TRUE
        for literal in literals:
            found = self.both(found, literal)
        return found

    def any(self, literals: Iterable[int]) -> int:
        """At least one of them."""
        found = FALSE
        for literal in literals:
            found = self.either(found, literal)
        return found

    def implied(self, literal: int) -> dict[int, bool]:
        """The bits whose value is fixed wherever `literal` holds, as far as can be read off its conjuncts."""
        found: dict[int, bool] = {}
        stack = [literal]
        while stack:
            part = stack.pop()
            node = part >> 1
            if node and self.left[node] < 0:
                found[self.right[node]] = not part & 1
            elif node and not part & 1:
                stack += (self.left[node], self.right[node])
        return found

    def value(self, literal: int, bits: Mapping[int, bool]) -> bool:
        """The truth of one expression under an assignment (for tests and small questions)."""
        node = literal >> 1
        if not node:
            return bool(literal & 1)
        if self.left[node] < 0:
            return bits[self.right[node]] ^ bool(literal & 1)
        return (self.value(self.left[node], bits) and self.value(self.right[node], bits)) ^ bool(literal & 1)

    def function(self, name: str, outputs: Sequence[int]) -> Callable[[Mapping[int, Plane], Plane], list[Plane]]:
        """A function (planes by bit number, plane of ones) -> planes of `outputs`, computing every shared part once.

        It works on Python integers and on arrays alike. Bits beyond the batch may be set in the result.
        """
        source = "\n".join([f"def {name}(p, one):", *("    " + line for line in self._lines(outputs))])
        scope: dict[str, Any] = {}
        exec(compile(source, f"<{name}>", "exec"), scope)
        made: Callable[[Mapping[int, Plane], Plane], list[Plane]] = scope[name]
        return made

    def _lines(self, outputs: Sequence[int]) -> list[str]:
        needed = self._needed(outputs)
        last = self._last_uses(needed, outputs)
        lines: list[str] = []
        names: dict[int, str] = {}
        """Literal -> the variable that holds it: a node may be there plain, negated, or both."""
        free: list[str] = []
        made = 0

        def fresh() -> str:
            nonlocal made
            if free:
                return free.pop()
            made += 1
            return f"v{made}"

        def hold(literal: int, text: str) -> str:
            names[literal] = name = fresh()
            lines.append(f"{name} = {text}")
            return name

        def get(literal: int) -> str:
            name = names.get(literal)
            return name if name is not None else hold(literal, f"~{names[literal ^ 1]}")

        for node in needed:
            a, b = self.left[node], self.right[node]
            if a < 0:
                hold(2 * node, f"p[{b}]")
                continue
            if a ^ 1 in names and b ^ 1 in names and not (a in names and b in names):
                text, target = f"{names[a ^ 1]} | {names[b ^ 1]}", 2 * node + 1
            else:
                text, target = f"{get(a)} & {get(b)}", 2 * node
            for operand in {a >> 1, b >> 1}:
                if last[operand] == node:
                    free.extend(names.pop(x) for x in (2 * operand, 2 * operand + 1) if x in names)
            hold(target, text)
        found = []
        for literal in outputs:
            if literal in (FALSE, TRUE):
                found.append("one" if literal == TRUE else "one ^ one")
            else:
                found.append(get(literal))
        return [*lines, f"return [{', '.join(found)}]"]

    def _needed(self, outputs: Sequence[int]) -> list[int]:
        seen: set[int] = set()
        stack = [literal >> 1 for literal in outputs if literal > TRUE]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if self.left[node] >= 0:
                stack += (self.left[node] >> 1, self.right[node] >> 1)
        return sorted(seen)

    def _last_uses(self, needed: Sequence[int], outputs: Sequence[int]) -> dict[int, int]:
        last: dict[int, int] = {}
        for node in needed:
            last.setdefault(node, node)
            if self.left[node] >= 0:
                last[self.left[node] >> 1] = last[self.right[node] >> 1] = node
        for literal in outputs:
            last[literal >> 1] = -1
        return last
