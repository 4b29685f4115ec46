"""CrossHair: it looks for arguments on which a pure function breaks its contract, by executing it on symbolic values.

Contracts are docstring lines `pre:` and `post:`. `MODEL` lists those of the model; other rooms keep their own and hand
them to `check`, so that no arrow between the rooms is turned round.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..model.errors import ModelError

MODEL: tuple[str, ...] = ("pinproof.proofs.claims",)
"""Modules, or functions by their full name, whose contracts speak of the model."""

BUDGET = 6.0
"""Seconds for all conditions of one `check` together, unless the caller says otherwise."""

Status = Literal["confirmed", "not refuted", "refuted", "vacuous"]
"""confirmed: holds on every path · not refuted: no counterexample within the budget · refuted: there is one ·
vacuous: no arguments were found for which the contract says anything."""


class CrossHairMissing(ModelError):
    """CrossHair is not installed: it comes with the `test` extra."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What CrossHair has to say about one contract."""

    place: str
    status: Status
    words: str


@dataclass(frozen=True, slots=True)
class ContractReport:
    """All findings, and how many conditions there were."""

    findings: tuple[Finding, ...]

    @property
    def refuted(self) -> tuple[Finding, ...]:
        """Contracts that are broken."""
        return tuple(f for f in self.findings if f.status == "refuted")

    @property
    def verdict(self) -> Literal["holds", "violated", "vacuous"]:
        """A broken contract decides, then one that says nothing; without any, nothing has been checked."""
        if self.refuted:
            return "violated"
        return "vacuous" if not self.findings or any(f.status == "vacuous" for f in self.findings) else "holds"


def check(targets: Sequence[str] = MODEL, *, conditions: int = 8, budget: float = BUDGET) -> ContractReport:
    """Look for broken contracts, in a process of its own.

    Args:
        targets: modules, functions by their full name, or files of Python.
        conditions: about how many contracts they have: the budget is divided by this.
        budget: seconds in all.

    Raises:
        CrossHairMissing: it is not installed.
    """
    if importlib.util.find_spec("crosshair") is None:
        raise CrossHairMissing("CrossHair is not installed; python -m pip install 'pinproof[test]' brings it")
    share = f"{max(0.2, budget / conditions):.2f}"
    command = [sys.executable, "-m", "crosshair", "check", "--analysis_kind=PEP316", "--report_all"]
    done = subprocess.run(
        [*command, f"--per_condition_timeout={share}", *targets], capture_output=True, text=True, check=False
    )
    findings = tuple(Finding(m[1], _status(m[2], m[3]), m[3]) for m in _LINE.finditer(done.stdout))
    if done.returncode not in (0, 1) or (done.returncode == 1 and not any(f.status == "refuted" for f in findings)):
        raise RuntimeError(f"CrossHair gave up: {(done.stderr or done.stdout).strip()[-600:]}")
    return ContractReport(findings)


_LINE = re.compile(r"^(\S+:\d+): (info|error|warning): (.*)$", re.MULTILINE)


def _status(level: str, words: str) -> Status:
    if level == "error":
        return "refuted"
    if words.startswith("Unable to meet precondition"):
        return "vacuous"
    return "confirmed" if words.startswith("Confirmed") else "not refuted"
