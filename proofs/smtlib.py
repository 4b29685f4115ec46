"""Obligations as SMT-LIB 2, for any other solver: one file an action, one `push … check-sat … pop` an obligation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.algebra import HOLDER, NODE, ROOT, Relation, Var
from ..model.instance import Instance
from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy
from .inductive import Assume
from .obligations import Script, script, script_names
from .pool import Progress
from .prove import choose
from .symbolic import Term, constant, sort_of


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: the files, in order, and how many obligations they hold."""

    files: tuple[Path, ...]
    obligations: int


def export(
    folder: Path,
    policies: Iterable[Policy] = POLICIES,
    components: Iterable[tuple[Component, ...]] = COMPONENT_SETS,
    *,
    progress: Progress | None = None,
) -> Exported:
    """Write every obligation into `folder`, as `POLICY/COMPONENTS/ACTION.smt2`; the folder is made if it is not there.

    Each answer that a solver should give stands in the `:status` before the query: `unsat` where something must follow,
    `sat` where it must be possible. Files that are there already are overwritten.

    Raises:
        OSError: the folder cannot be written.
    """
    chosen, _ = choose(policies, components)
    scripts = [(found, name) for found in chosen for name in script_names(found)]
    files, count = [], 0
    for done, (found, name) in enumerate(scripts, 1):
        text = script(found, name)
        file = folder / f"{text.name}.smt2"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines(text, found)), encoding="utf-8")
        files.append(file)
        count += sum(1 for _ in text.obligations())
        if progress is not None:
            progress(done, len(scripts), text.name)
    return Exported(tuple(files), count)


def lines(text: Script, found: Instance) -> Iterator[str]:
    """The commands of one script, in order."""
    yield f"; {text.name}: every query must be answered as its :status says"
    yield "(set-option :incremental true)"
    yield "(set-logic UF)"
    yield from declarations(text, found.relations)
    for entry in text.entries:
        if isinstance(entry, Assume):
            yield f"(assert {entry.formula.sexpr()})" + (f" ; {entry.name}" if entry.name else "")
        else:
            yield f"(push 1) ; {entry.id}"
            yield f"(set-info :status {entry.expected})"
            yield f"(assert {entry.query.sexpr()})"
            yield "(check-sat)"
            yield "(pop 1)"


def declarations(text: Script, relations: Sequence[Relation]) -> Iterator[str]:
    """The sorts, relations and constants that a script speaks of."""
    yield "(declare-sort Node 0)"
    yield "(declare-sort Holder 0)"
    yield "(declare-fun ancestor (Node Node) Bool)"
    for relation in relations:
        yield f"(declare-fun {relation.name} ({' '.join(str(sort_of(s)) for s in relation.sorts)}) Bool)"
    for term in _constants(text):
        yield f"(declare-const {term.sexpr()} {term.sort().sexpr()})"


def _constants(text: Script) -> Iterator[Term]:
    claims = {v for o in text.obligations() for v in o.variables} | {Var("n", NODE), Var("other", HOLDER)}
    yield constant(ROOT)
    yield from text.scope.values()
    for var in sorted(claims, key=lambda v: v.name):
        yield constant(var, "!s")
