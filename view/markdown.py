"""A summary for pull requests, in GitHub's Markdown. Whatever comes from a trace is escaped: it stays text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .story import Step, Story
from .words import shorten

STEPS = 12
"""Steps before the violation that are listed."""

_MARK = {"holds": "✅", "violated": "❌", "vacuous": "⚠️", "unknown": "⚠️"}


def summary(rows: Sequence[Mapping[str, object]], title: str = "pinproof") -> str:
    """A table of checks, each with `name`, `verdict` and `text`, the worst first."""
    order = ("violated", "unknown", "vacuous", "holds")
    found = sorted(rows, key=lambda r: order.index(str(r["verdict"])) if r["verdict"] in order else 0)
    lines = [f"### {escape(title)}", "", "| check | verdict | |", "|---|---|---|"]
    for row in found:
        verdict = str(row["verdict"])
        lines.append(
            f"| {escape(row['name'])} | {_MARK.get(verdict, '❔')} {escape(verdict)} | {escape(row.get('text', ''))} |"
        )
    return "\n".join(lines) + "\n"


def story(told: Story) -> str:
    """One story: what went wrong, the rule, why, the last steps, how to see it again."""
    about = " · ".join(f"{escape(k)} {escape(v)}" for k, v in told.header.items())
    lines = [f"### {escape(told.title)}", "", about, ""]
    violation = told.violation
    if violation is None:
        lines.append(f"✅ Nothing wrong in {told.overview.total:,} steps.")
        return "\n".join(lines) + "\n"
    at = told.at if told.at is not None else told.first
    position = min(at - told.first, len(told.steps) - 1)
    step = told.steps[position] if told.steps else None
    lines.append(f"❌ **{escape(violation.title)}**" + (f" at step {step.seq}: {escape(step.words)}" if step else ""))
    lines += ["", f"* **Rule** {escape(violation.words)} ({code(violation.rule)})"]
    if violation.conjunct:
        lines.append(f"* **False here** {code(violation.conjunct)}")
    lines += [f"* {escape(fact.words)}" for fact in violation.facts]
    if violation.source:
        lines.append(f"* **From** {escape(violation.source)}")
    if violation.differences:
        lines += ["", f"| node | field | {' | '.join(violation.sides)} |", "|---|---|---|---|"]
        for d in violation.differences[:20]:
            lines.append(f"| {d.node} | {escape(d.field)} | {escape(d.expected)} | {escape(d.observed)} |")
    if step is not None:
        lines += ["", "<details><summary>The steps before</summary>", ""]
        lines += [_step(s) for s in told.steps[max(0, position - STEPS) : position + 1]]
        lines += ["", "</details>"]
    if told.reproduce:
        lines += ["", f"Again: {code(told.reproduce)}"]
    return "\n".join(lines) + "\n"


def _step(step: Step) -> str:
    refused = f" *refused: {escape(step.reason)}*" if step.refused else ""
    return f"* {step.seq} {escape(step.words)}{refused}"


def escape(value: object) -> str:
    """Text in which nothing is markup, no mention and no link, on one line."""
    text = " ".join(shorten(str(value), 500).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~@:])", lambda m: f"&#{ord(m[1])};" if m[1] in "@:|" else "\\" + m[1], text)


def code(value: object) -> str:
    """Inline code that its content cannot end."""
    text = " ".join(shorten(str(value), 500).split()).replace("|", "¦")
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"
