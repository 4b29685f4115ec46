"""The reference, written from the code: Markdown pages for the guide and a man page. A test finds any drift."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo

from ..view.catalogue import EXIT_CODES
from .manual_rules import cell, exit_codes, mutants, properties
from .manual_traces import event_page, worker

NOTE = "<!-- Written from the code by: python -m pytest tests/docs/test_reference.py --rewrite-golden -->\n\n"


def pages(app: typer.Typer) -> dict[str, str]:
    """The pages of the reference by file name, and the man page."""
    return {
        "reference/verbs.md": NOTE + verbs(app),
        "reference/events.md": NOTE + event_page(),
        "reference/worker.md": NOTE + worker(),
        "reference/properties.md": NOTE + properties(),
        "reference/mutants.md": NOTE + mutants(),
        "reference/exit-codes.md": NOTE + exit_codes(),
        "pinproof.1": man(app),
    }


# Verbs --------------------------------------------------------------------------------------------------------------
Verb = Callable[..., Any]


def commands(app: typer.Typer) -> Iterator[tuple[str, Verb]]:
    """Every verb with its function; verbs of a verb (`targets install`) come after it."""
    for command in app.registered_commands:
        if command.callback is not None and not command.hidden:
            yield command.name or command.callback.__name__.replace("_", "-"), command.callback
    for group in app.registered_groups:
        inner = group.typer_instance
        if inner is None:
            continue
        callback = inner.registered_callback.callback if inner.registered_callback is not None else None
        name = group.name or (callback.__name__ if callback is not None else "")
        if callback is not None:
            yield name, callback
        yield from ((f"{name} {verb}", function) for verb, function in commands(inner))


def verbs(app: typer.Typer) -> str:
    """One section a verb: what it does, an example, its arguments and options."""
    parts = ["# Verbs\n", "Every verb takes `--json` and leaves with [an exit code](exit-codes.md).\n"]
    for name, verb in commands(app):
        words, example = described(verb)
        parts.append(f"## {name}\n\n{words}\n\n```text\n{example}\n```\n")
        rows = [f"| {parameter} | {cell(help_)} | {cell(default)} |" for parameter, help_, default in parameters(verb)]
        parts.append("\n".join(["| | | if left out |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def described(verb: Verb) -> tuple[str, str]:
    """What a verb's help says: its words, and its example."""
    words, _, example = (inspect.getdoc(verb) or "").partition("Example:")
    return " ".join(words.split()), example.strip()


def parameters(verb: Verb) -> Iterator[tuple[str, str, str]]:
    """(how it is written, help, default) of each argument and option."""
    hints = get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        if hints[name] is typer.Context:
            continue
        kind, info = get_args(hints[name])[:2]
        default = "" if parameter.default in (None, False, inspect.Parameter.empty) else str(parameter.default)
        if isinstance(info, ArgumentInfo):
            shown = f"`{info.metavar or name.upper()}`"
            default = "required" if parameter.default is inspect.Parameter.empty else default
        else:
            value = "" if kind is bool else f" {_kind(kind)}"
            stated = [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str) and d.startswith("-")]
            names = [n for decl in stated or [f"--{name.replace('_', '-')}"] for n in decl.split("/")]
            shown = ", ".join(f"`{n}{value}`" for n in names)
        yield shown, info.help or "", default


def _kind(kind: Any) -> str:
    """The value of an option, in a word."""
    kinds = [k for k in (get_args(kind) or (kind,)) if k is not type(None)]
    return {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "Path": "FILE"}.get(kinds[0].__name__, "TEXT")


def man(app: typer.Typer) -> str:
    """A man page, in the man macros."""
    lines = [
        '.\\" Written from the code by: python -m pytest tests/docs/test_reference.py --rewrite-golden',
        ".TH PINPROOF 1",
        ".SH NAME",
        "pinproof \\- check, prove and run the ownership protocol of a tiered KV cache",
        ".SH SYNOPSIS",
        ".B pinproof",
        "[\\-\\-version] VERB [ARGUMENTS] [\\-\\-json]",
        ".SH VERBS",
    ]
    for name, verb in commands(app):
        words, example = described(verb)
        lines += [f".SS {name}", _roff(words), ".PP", "Example:", ".B", _roff(example)]
        for shown, help_, default in parameters(verb):
            told = f"{help_} ({default})" if default else help_
            lines += [".TP", _roff(shown.replace("`", "")), _roff(told or " ")]
    lines.append(".SH EXIT STATUS")
    for code, (called, words) in EXIT_CODES.items():
        lines += [".TP", str(code), _roff(f"{called}: {words}")]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
