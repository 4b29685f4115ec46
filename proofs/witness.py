"""A small language for questions of the form "can this ever be?", read into formulas of the algebra.

    load_back_pending(n, h) and host_lock.full(n, h)
    request(g) and load_back(h) and g != h and device_lock.swa(n, g) and reads.swa(n, h)
    every n: live(n) implies device.full(n) or n == root

Names before `(` are relations of the vocabulary, `busy(h)`, or `above(upper, lower)` (a node is above itself);
`root` is the root. A variable's sort follows from where it stands. Variables that no `some` or `every` binds are
existential; nodes range over the tree. From loose to tight: `some x, y: …` and `every x: …` (as far to the right as
they can), `implies`, `or` (`|`), `and` (`&`), `not` (`~`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.algebra import (
    FALSE,
    HOLDER,
    NODE,
    ROOT,
    TRUE,
    Formula,
    Relation,
    SomeHolder,
    SomeNode,
    Sort,
    Var,
    ancestor,
    everywhere,
    same,
)
from ..model.errors import ModelError, UnknownName
from ..model.vocabulary import busy


class WitnessSyntax(ModelError):
    """An expression that cannot be read. Shows where."""

    def __init__(self, message: str, text: str, position: int) -> None:
        super().__init__(f"{message}\n  {text}\n  {' ' * position}^")
        self.position = position


_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_][\w]*(?:\.[a-z]+)?)|(?P<sign>=>|==|!=|[(),:&|~!]))")
_SIGNS = {"&": "and", "|": "or", "~": "not", "!": "not", "=>": "implies"}
_WORDS = {"and", "or", "not", "implies", "some", "every", "true", "false"}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    position: int
    is_name: bool


@dataclass(frozen=True, slots=True)
class _Term:
    """A node of the syntax: `op`, its operands, and for an atom the names of its arguments."""

    op: str
    parts: tuple[_Term, ...] = ()
    names: tuple[str, ...] = ()
    position: int = 0


def parse_witness(text: str, relations: Sequence[Relation]) -> Formula:
    """The closed formula that `text` says.

    Raises:
        WitnessSyntax: it cannot be read, or a variable's sort is not clear.
        UnknownName: there is no such relation here.
    """
    parser = _Parser(text, {r.name: r for r in relations})
    term = parser.whole()
    return _Builder(text, parser.relations).closed(term)


class _Parser:
    def __init__(self, text: str, relations: dict[str, Relation]) -> None:
        self.text = text
        self.relations = relations
        self.tokens = list(self._split())
        self.at = 0

    def _split(self) -> list[_Token]:
        found, at = [], 0
        while self.text[at:].strip():
            match = _TOKEN.match(self.text, at)
            if match is None:
                position = at + len(self.text[at:]) - len(self.text[at:].lstrip())
                raise WitnessSyntax(f"unexpected {self.text[position]!r}", self.text, position)
            word = match.group("name") or match.group("sign")
            name = match.group("name") is not None
            found.append(_Token(_SIGNS.get(word, word), match.end() - len(word), name and word not in _WORDS))
            at = match.end()
        return found

    def whole(self) -> _Term:
        found = self.expression()
        if self.at < len(self.tokens):
            raise self.wrong(f"unexpected {self.tokens[self.at].text!r}")
        return found

    def expression(self) -> _Term:
        if self.peek() in ("some", "every"):
            op = self.next().text
            names = [self.name()]
            while self.peek() == ",":
                self.next()
                names.append(self.name())
            self.expect(":")
            return _Term(op, (self.expression(),), tuple(names))
        left = self.chain("or")
        if self.peek() == "implies":
            self.next()
            return _Term("or", (_Term("not", (left,)), self.expression()))
        return left

    def chain(self, op: str) -> _Term:
        tighter = self.chain if op == "or" else self.unary
        parts = [tighter("and")]
        while self.peek() == op:
            self.next()
            parts.append(tighter("and"))
        return parts[0] if len(parts) == 1 else _Term(op, tuple(parts))

    def unary(self, _: str = "") -> _Term:
        if self.peek() == "not":
            self.next()
            return _Term("not", (self.unary(),))
        if self.peek() in ("some", "every"):
            return self.expression()
        if self.peek() == "(":
            self.next()
            found = self.expression()
            self.expect(")")
            return found
        if self.peek() in ("true", "false"):
            return _Term(self.next().text)
        return self.atom()

    def atom(self) -> _Term:
        position = self.position
        name = self.name()
        if self.peek() == "(":
            self.next()
            names = [self.name()]
            while self.peek() == ",":
                self.next()
                names.append(self.name())
            self.expect(")")
            if name not in (*self.relations, "above", "busy"):
                raise UnknownName("relation", name, [*self.relations, "above", "busy"])
            return _Term(name, (), tuple(names), position)
        if self.peek() in ("==", "!="):
            op = self.next().text
            equal = _Term("==", (), (name, self.name()), position)
            return equal if op == "==" else _Term("not", (equal,))
        raise self.wrong(f"{name!r} must be followed by its arguments, == or !=")

    @property
    def position(self) -> int:
        return self.tokens[self.at].position if self.at < len(self.tokens) else len(self.text)

    def wrong(self, message: str) -> WitnessSyntax:
        return WitnessSyntax(message, self.text, self.position)

    def peek(self) -> str:
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def next(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def name(self) -> str:
        if self.at >= len(self.tokens) or not self.tokens[self.at].is_name:
            raise self.wrong("a name is missing here")
        return self.next().text

    def expect(self, sign: str) -> None:
        if self.peek() != sign:
            raise self.wrong(f"{sign!r} is missing here")
        self.next()


class _Builder:
    def __init__(self, text: str, relations: dict[str, Relation]) -> None:
        self.text = text
        self.relations = relations
        self.sorts: dict[str, Sort] = {"root": NODE}

    def closed(self, term: _Term) -> Formula:
        for _ in range(2):  # once for the relations, once more for what equalities carry over
            self.infer(term)
        bound = {"root"}
        formula = self.formula(term, bound)
        for name in sorted(self.mentioned(term) - self.quantified(term) - {"root"}, reverse=True):
            formula = self.some(name, formula, term)
        return formula

    def infer(self, term: _Term) -> None:
        for part in term.parts:
            self.infer(part)
        if term.op == "==":
            known = [self.sorts[n] for n in term.names if n in self.sorts]
            sorts: tuple[Sort, ...] = tuple(known[:1] * 2)
        elif not term.names or term.op in ("some", "every"):
            return
        else:
            sorts = {"above": (NODE, NODE), "busy": (HOLDER,)}.get(term.op) or self.relations[term.op].sorts
            if len(sorts) != len(term.names):
                raise WitnessSyntax(f"{term.op} takes ({', '.join(sorts)})", self.text, term.position)
        for name, sort in zip(term.names, sorts, strict=False):
            if self.sorts.setdefault(name, sort) != sort:
                raise WitnessSyntax(f"{name} is a {self.sorts[name]} and a {sort}", self.text, term.position)

    def mentioned(self, term: _Term) -> set[str]:
        return set(term.names).union(*(self.mentioned(p) for p in term.parts))

    def quantified(self, term: _Term) -> set[str]:
        own = set(term.names) if term.op in ("some", "every") else set()
        return own.union(*(self.quantified(p) for p in term.parts))

    def var(self, name: str, term: _Term) -> Var:
        if name == "root":
            return ROOT
        if name not in self.sorts:
            raise WitnessSyntax(f"nothing says whether {name} is a node or a holder", self.text, term.position)
        return Var(name, self.sorts[name])

    def some(self, name: str, body: Formula, term: _Term) -> Formula:
        var = self.var(name, term)
        return SomeHolder(var, body) if var.sort == HOLDER else SomeNode(everywhere(), var, body)

    def formula(self, term: _Term, bound: set[str]) -> Formula:
        parts = [self.formula(p, bound) for p in term.parts]
        args = [] if term.op in ("some", "every") else [self.var(n, term) for n in term.names]
        found: Formula
        match term.op:
            case "true" | "false":
                return TRUE if term.op == "true" else FALSE
            case "not":
                return ~parts[0]
            case "and" | "or":
                found = parts[0]
                for part in parts[1:]:
                    found = found & part if term.op == "and" else found | part
                return found
            case "some":
                found = parts[0]
                for name in reversed(term.names):
                    found = self.some(name, found, term)
                return found
            case "every":
                found = ~parts[0]
                for name in reversed(term.names):
                    found = self.some(name, found, term)
                return ~found
            case "==":
                return same(*args)
            case "above":
                return ancestor(*args)
            case "busy":
                return busy(*args)
        return self.relations[term.op](*args)
