"""Where two histories part: the answer of `pinproof diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field in which the two sides differ; `node` is None for a field of the event itself."""

    node: int | None
    field: str
    a: object
    b: object


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where the two sides part.

    Attributes:
        seq, line: the event, and its line in trace `a`.
        a, b: the event on either side, on one line; None where the trace has ended, or `b` is the model.
        fields: what differs.
        rule, words: what the protocol has to say about it; empty if it allows both.
        conjuncts: parts of the guard that do not hold, in words.
        recent: the last events that touched the nodes in question.
    """

    seq: int
    line: int
    a: str | None
    b: str | None
    fields: tuple[FieldDifference, ...]
    rule: str = ""
    words: str = ""
    conjuncts: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "seq": self.seq, "line": self.line, "a": self.a, "b": self.b,
            "fields": [{"node": f.node, "field": f.field, "a": f.a, "b": f.b} for f in self.fields],
            "rule": self.rule, "words": self.words, "conjuncts": list(self.conjuncts), "recent": list(self.recent),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiffResult:
    """What came of a comparison: how many events agree, and where they part first.

    Attributes:
        verdict: "holds" if they do not part.
        events: events that were read of `a`.
        truncated: traces whose last line was cut off.
    """

    verdict: Literal["holds", "violated"]
    events: int
    divergence: Divergence | None
    truncated: tuple[str, ...] = ()
