"""The shape of every verb's JSON, as JSON Schema.

`docs/reference/json.md` is written from here, and tests hold the verbs' output to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

VERDICT: Schema = {
    "enum": ["holds", "violated", "vacuous", "unknown"],
    "description": "holds (exit 0), violated (1), vacuous (3), unknown (4)",
}
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
SECONDS: Schema = {"type": "number", "minimum": 0, "description": "wall-clock seconds"}


def listing(items: Schema, words: str = "") -> Schema:
    """An array of `items`."""
    return {"type": "array", "items": items, **({"description": words} if words else {})}


def record(
    required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, *, closed: bool = True
) -> Schema:
    """An object with these fields; `closed` forbids others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": not closed,
    }


def told(schema: Schema, words: str) -> Schema:
    """The same, with a description."""
    return {**schema, "description": words}


VIOLATION = record(
    {
        "kind": told(TEXT, "safety, permissiveness, refinement, accounting, visibility or crash"),
        "seq": told({"type": "integer"}, "the event it was seen at"),
        "rule": told(TEXT, "stable id: see `pinproof explain`"),
        "words": told(TEXT, "what should have been"),
    },
    closed=False,
)
STEP = record({"action": TEXT, "args": {"type": "object"}})

PROVE = record(
    {
        "verdict": VERDICT,
        "instances": told(COUNT, "policies times component sets that were proven"),
        "obligations": told(COUNT, "what had to be proven, in all"),
        "failed": listing(TEXT, "ids of refuted obligations"),
        "unknown": listing(TEXT, "ids of obligations that the solver gave up on: never a pass"),
        "seconds": SECONDS,
        "by_instance": told({"type": "object"}, "counts by verdict"),
        "shared": told({"type": "object"}, "instances that share the proof of another one"),
    },
    {
        "recheck": told({"type": "object"}, "the same with cvc5: verdict, obligations, disagrees, unknown, seconds"),
        "counterexamples": listing(
            {"type": "object"}, "of the first few failed obligations; `pinproof show` takes them"
        ),
        "exported": told(COUNT, "SMT-LIB 2 files written"),
    },
)
MUTANTS = record(
    {
        "verdict": VERDICT,
        "total": told(COUNT, "faulty protocols tried"),
        "killed": told(COUNT, "caught by the obligation they name, wherever they are declared to bite"),
        "survivors": listing({"type": "object"}, "mutant and instance where it was not caught"),
        "seconds": SECONDS,
    }
)
EXPLORATION = record(
    {
        "verdict": VERDICT,
        "name": TEXT,
        "nodes": COUNT,
        "holders": COUNT,
        "states": COUNT,
        "transitions": COUNT,
        "depth": told(COUNT, "the longest of all shortest ways to a state"),
        "complete": {"type": "boolean"},
        "seconds": SECONDS,
        "states_per_second": COUNT,
        "coverage": told({"type": "object"}, "by action: fired, refused, impossible"),
        "violation": told({"type": ["object", "null"]}, "kind, rule, words, args and the shortest trace"),
        "witness": told({"type": ["array", "null"]}, "the shortest way to a state as asked for"),
    },
    closed=False,
)
EXPLORE = record({"verdict": VERDICT, "explorations": listing(EXPLORATION)}, {"suite": {"type": "object"}})
CONFORM = record(
    {
        "verdict": VERDICT,
        "target": TEXT,
        "policy": listing(TEXT),
        "components": listing(TEXT),
        "steps": told(COUNT, "operations performed"),
        "steps_per_second": told(COUNT, "checks included"),
        "violations": listing(VIOLATION),
        "seed": {"type": "integer"},
        "runs": listing({"type": "object"}, "the same for each run, with coverage and the command"),
    },
    {
        "suite": told({"type": "object"}, "of `--suite`: planned, executed, and why steps were not"),
        "against": told(TEXT, "of `--against`: the other target"),
        "divergence": told(
            {"type": ["object", "null"]}, "of `--against`: the first operation, both answers, fields, what was before"
        ),
    },
)
REPLAY = record({"verdict": VERDICT, "scenario": TEXT, "target": TEXT, "runs": listing({"type": "object"})})
DIFF = record(
    {
        "verdict": VERDICT,
        "events": told(COUNT, "compared"),
        "divergence": told({"type": ["object", "null"]}, "seq, line, both sides, fields, rule, what happened before"),
        "truncated": listing(TEXT, "traces whose last line is cut off"),
    }
)
TARGETS = record(
    {"verdict": VERDICT, "targets": listing(record({"target": TEXT, "available": {"type": "boolean"}, "reason": TEXT}))}
)
VERIFY = record(
    {
        "verdict": VERDICT,
        "seconds": SECONDS,
        "prove": PROVE,
        "explore": listing(EXPLORATION),
        "conform": CONFORM,
    }
)

SHOW = record(
    {
        "verdict": VERDICT,
        "file": told({"type": ["string", "null"]}, "what was written"),
        "characters": COUNT,
        "steps": told(COUNT, "of the whole source"),
        "kept": told(COUNT, "steps on the page"),
        "violations": listing({"type": "object"}, "step, kind, rule, words, conjunct, facts, differences, source"),
    }
)
EXPLAIN = record(
    {"verdict": VERDICT},
    {
        "entry": told({"type": "object"}, "id, kind, words, and lists of lines: source, formula, modelled, tested, …"),
        "ids": told({"type": "object"}, "every id by kind, where none was asked for"),
    },
)
DOCTOR = record(
    {
        "verdict": VERDICT,
        "findings": listing(
            record({"name": TEXT, "health": {"enum": ["ok", "optional", "missing"]}, "words": TEXT}, {"fix": TEXT}),
            "fix: the command that makes it right",
        ),
    }
)

SCHEMAS: Mapping[str, Schema] = {
    "verify": VERIFY,
    "prove": PROVE,
    "mutants": MUTANTS,
    "explore": EXPLORE,
    "conform": CONFORM,
    "replay": REPLAY,
    "diff": DIFF,
    "targets": TARGETS,
    "show": SHOW,
    "explain": EXPLAIN,
    "doctor": DOCTOR,
}


def page() -> str:
    """`docs/reference/json.md`: the fields of every verb."""
    parts = ["# JSON\n\nEvery verb takes `--json` and then prints one object on standard output.\n"]
    for verb, schema in SCHEMAS.items():
        parts.append(f"## {verb}\n\n| field | type | meaning |\n|---|---|---|\n{_rows(schema)}\n")
    return "\n".join(parts)


def _rows(schema: Schema) -> str:
    required = set(schema["required"])
    return "\n".join(
        f"| `{name}`{'' if name in required else ' (optional)'} | {_type(field)} | {field.get('description', '')} |"
        for name, field in schema["properties"].items()
    )


def _type(field: Schema) -> str:
    if "enum" in field:
        return "verdict"
    kind = field["type"]
    if kind == "array":
        return f"list of {_type(field['items'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)
