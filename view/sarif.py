"""Findings as SARIF 2.1.0, for code review: stable rule ids, fingerprints without lines, code flows."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any
from urllib.parse import quote

from .judge import Violation
from .story import Story
from .words import shorten

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
STEPS = 60
"""Steps of a code flow at most: the last ones before the violation."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that went wrong, and where.

    Attributes:
        rule: stable id of the rule, as `pinproof explain` takes it.
        uri: file it was found in (a trace, a scenario), relative to the repository's root.
        context: what tells this finding from others of the same rule: target, policy, components, action. No lines,
            no node numbers: the fingerprint must stay the same when these change.
        flow: the steps that lead there, each with its line in the file, or None.
    """

    rule: str
    words: str
    message: str
    uri: str
    line: int = 1
    context: tuple[str, ...] = ()
    source: str = ""
    level: str = "error"
    flow: tuple[tuple[str, int | None], ...] = field(default=())


def finding_of(story: Story, uri: str, *, lines: bool = True) -> Finding | None:
    """What is wrong in a story, if anything. With `lines`, a step is on the line of its event, below a header."""
    violation, at = story.violation, story.at
    if violation is None or at is None:
        return None
    flow: list[tuple[str, int | None]] = []
    last = min(at - story.first, len(story.steps) - 1)
    for position in range(max(0, last - STEPS + 1), last + 1):
        flow.append((story.steps[position].words, story.first + position + 2 if lines else None))
    step = story.steps[last] if story.steps else None
    context = [str(story.header.get(k, "")) for k in ("target", "policy")]
    context += ["+".join(story.components), step.action if step else "", violation.kind]
    message = f"{violation.title}: {step.words if step else ''}. {message_of(violation)}"
    return Finding(
        violation.rule, violation.words, message, uri, at + 2 if lines else 1, tuple(context), violation.source,
        flow=tuple(flow),
    )  # fmt: skip


def message_of(violation: Violation) -> str:
    """The rule, and why it does not hold, in one paragraph."""
    parts = [f"{violation.words}."]
    if violation.facts:
        parts.append("But " + "; ".join(fact.words for fact in violation.facts) + ".")
    one, other = violation.sides
    for d in violation.differences[:4]:
        parts.append(f"Node {d.node}, {d.field}: {one} says {d.expected}, {other} {d.observed}.")
    return " ".join(parts)


def sarif(findings: Sequence[Finding]) -> dict[str, Any]:
    """A SARIF log with one run."""
    rules: dict[str, dict[str, Any]] = {}
    for f in findings:
        rules.setdefault(f.rule, _rule(f))
    index = {rule: number for number, rule in enumerate(rules)}
    driver = {
        "name": "pinproof",
        "version": version(),
        "rules": list(rules.values()),
    }
    results = [_result(f, index[f.rule]) for f in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def version() -> str:
    """The installed version; 0 where pinproof runs from a folder."""
    try:
        return metadata.version("pinproof")
    except metadata.PackageNotFoundError:
        return "0"


def fingerprint(finding: Finding) -> str:
    """The same for the same fault, wherever in a file it shows and whatever its nodes are called."""
    return hashlib.sha256("\0".join((finding.rule, *finding.context)).encode()).hexdigest()[:32]


def _rule(f: Finding) -> dict[str, Any]:
    words = shorten(f.words)
    help_text = f"{words}\n\n" + (f"From {f.source}.\n\n" if f.source else "") + f"pinproof explain {f.rule}"
    return {
        "id": f.rule,
        "name": "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", f.rule)) or "Rule",
        "shortDescription": {"text": words},
        "fullDescription": {"text": words},
        "help": {"text": shorten(help_text)},
        "defaultConfiguration": {"level": f.level},
    }


def _result(f: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": f.rule,
        "ruleIndex": index,
        "level": f.level,
        "message": {"text": shorten(f.message)},
        "locations": [{"physicalLocation": _place(f.uri, f.line)}],
        "partialFingerprints": {"pinproof/v1": fingerprint(f)},
    }
    if f.flow:
        steps = [{"location": _step(f.uri, words, line)} for words, line in f.flow]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def _step(uri: str, words: str, line: int | None) -> dict[str, Any]:
    return {"physicalLocation": _place(uri, line), "message": {"text": shorten(words)}}


def _place(uri: str, line: int | None) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(uri.replace("\\", "/"), safe="/:")}}
    if line is not None:
        place["region"] = {"startLine": max(1, line)}
    return place
