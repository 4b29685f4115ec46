"""Another solver reads what is exported and gives the same answers."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cvc5", reason="cvc5 is not installed")

from pinproof.model.instance import instance
from pinproof.model.mutants import MUTANTS
from pinproof.proofs.obligations import script, script_names
from pinproof.proofs.recheck import RecheckReport, answers, recheck
from pinproof.proofs.smtlib import export, lines


@pytest.mark.parametrize(
    ("policy", "action"), [("write_back", "commit_load_back"), ("write_back", "split"), ("write_through", "demote")]
)
def test_cvc5_agrees(policy: str, action: str) -> None:
    found = instance(policy, ("full", "swa", "mamba"))  # type: ignore[arg-type]
    text = script(found, action)
    results = list(answers("\n".join(lines(text, found))))
    assert [r.id for r in results] == [o.id for o in text.obligations()]
    assert {r.agreement for r in results} == {"agrees"}
    assert RecheckReport(tuple(results), 0.0).verdict == "holds"


def test_cvc5_refutes_a_faulty_protocol() -> None:
    """The red beside the green."""
    faulty = MUTANTS["split-loses-host-lock"].instance("write_back", ("full",))
    results = list(answers("\n".join(lines(script(faulty, "split"), faulty))))
    wrong = {r.id for r in results if r.agreement != "agrees"}
    assert "write_back/full/split.consecution.safety.stored-source-stays" in wrong
    assert RecheckReport(tuple(results), 0.0).verdict != "holds"


def test_every_obligation_is_exported(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    done = export(tmp_path, ("write_through_selective",), (("full",),), progress=lambda *x: told.append(x))
    assert done.obligations == 1965
    names = [f"write_through/full/{n}.smt2" for n in script_names(instance("write_through", ("full",)))]
    assert [str(f.relative_to(tmp_path)) for f in done.files] == names
    assert told[-1] == (len(names), len(names), "write_through/full/reset")
    text = (tmp_path / "write_through/full/split.smt2").read_text()
    assert text.count("(check-sat)") == text.count("(push 1) ; ") == text.count("(set-info :status ")
    assert "\n(declare-fun load_back_pending (Node Holder) Bool)\n" in text


def test_an_exported_folder_is_rechecked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinproof.proofs.recheck.script_names", lambda found: ("lock", "unlock"))
    export(tmp_path, ("write_back",), (("full",),))
    report = recheck(("write_back",), (("full",),), folder=tmp_path, jobs=1)
    assert report.verdict == "holds"
    assert {r.id.split(".")[0] for r in report.results} == {"write_back/full/lock", "write_back/full/unlock"}
    (tmp_path / "write_back/full/lock.smt2").unlink()
    with pytest.raises(FileNotFoundError):
        recheck(("write_back",), (("full",),), folder=tmp_path, jobs=1)


def test_a_text_that_is_cut_off_is_told() -> None:
    found = instance("write_back", ("full",))
    text = "\n".join(lines(script(found, "lock"), found))
    with pytest.raises(Exception, match=r"."):
        list(answers(text[: len(text) // 2]))
