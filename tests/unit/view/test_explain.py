"""Every name that a report can mention is explained; doctor says what is missing and never falls over."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import typer
from pinproof.cli import doctor, explain, show
from pinproof.cli.schemas import SCHEMAS
from pinproof.model.errors import BadArgument, UnknownName
from pinproof.view import catalogue
from typer.testing import CliRunner

IDS = [identifier for group in catalogue.known().values() for identifier in group]
app = typer.Typer()
for verb in (show, explain, doctor):
    verb.register(app)
run = CliRunner()

SCENARIO = """
name = "locked-leaf-deleted"
words = "A locked leaf is deleted."
policies = ["write_back"]
components = ["full"]
[[step]]
action = "insert_leaf"
args = { parent = "root", leaf = "X" }
[[step]]
action = "lock"
args = { node = "X", boundary = "X", holder = "r" }
[[step]]
action = "delete_leaf"
args = { node = "X" }
"""


def test_every_id_has_an_entry() -> None:
    for identifier in IDS:
        entry = catalogue.explain(identifier)
        assert entry.id == identifier
        assert len(entry.words) > 10, identifier


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("safety.locked-slots-stay.swa", "safety.locked-slots-stay"),
        ("write_back/full/demote.consecution.safety.locked-slots-stay.full", "safety.locked-slots-stay"),
        ("write_back/full+swa/initiation.structure.no-orphans", "structure.no-orphans"),
        ("write_through/full/demote.necessity.no-device-lock", "demote/no device lock"),
        ("evict_host_aux.swa", "evict_host_aux.swa"),
        ("reclaim_duplicate/refusal", "reclaim_duplicate/refusal"),
        ("demote/duplicate", "demote/duplicate"),
        ("exit 4", "4"),
    ],
)
def test_names_as_reports_write_them(name: str, found: str) -> None:
    assert catalogue.explain(name).id == found


@pytest.mark.parametrize("name", ["", "nope", "demote/nope", "demote.swa", "5", "lock.full.swa"])
def test_what_is_unknown_says_what_is_near(name: str) -> None:
    with pytest.raises(UnknownName, match="there is"):
        catalogue.explain(name)


def test_places_are_where_they_say() -> None:
    rows = dict(catalogue.explain("tracking.settled-duplicates-are-tracked").rows)
    file, line = rows["modelled"][0].split(":")
    lines = (catalogue.ROOT / file).read_text().splitlines()
    assert "def settled_duplicates_are_tracked" in "".join(lines[int(line) - 1 : int(line) + 3])


def test_explain_on_the_command_line() -> None:
    shown = run.invoke(app, ["explain", "reclaim_duplicate/not pinned"])
    assert shown.exit_code == 0
    assert "danger" in shown.output
    answer = json.loads(run.invoke(app, ["explain", "3", "--json"]).output)
    assert (answer["verdict"], answer["entry"]["called"]) == ("holds", ["vacuous"])
    jsonschema.validate(answer, SCHEMAS["explain"])
    answer = json.loads(run.invoke(app, ["explain", "--json"]).output)
    jsonschema.validate(answer, SCHEMAS["explain"])
    assert len(answer["ids"]["properties"]) > 50


def test_doctor_finds_what_the_tests_run_with() -> None:
    answer = json.loads(run.invoke(app, ["doctor", "--json"]).output)
    by_name = {f["name"]: f for f in answer["findings"]}
    assert answer["verdict"] == "holds"
    assert by_name["z3 solves"]["words"] == "x & not x is unsat"
    assert by_name["impl"]["health"] == "ok"
    jsonschema.validate(answer, SCHEMAS["doctor"])


def test_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ImportError(f"no {name}")

    monkeypatch.setattr("pinproof.cli.doctor.importlib.import_module", broken)
    result = run.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "ImportError: no z3" in result.output


def test_show_writes_what_its_ending_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text(SCENARIO)
    result = run.invoke(app, ["show", "x.toml"])
    assert result.exit_code == 1
    assert "delete_leaf/no device lock" in result.output
    assert Path("x.html").read_text().startswith("<!doctype html>")
    for name, start in (("a.md", "### Locked leaf deleted"), ("a.sarif", "{"), ("a.json", '{"traceEvents"')):
        assert run.invoke(app, ["show", "x.toml", "-o", name]).exit_code == 1
        assert Path(name).read_text().startswith(start)
    assert run.invoke(app, ["show", "x.toml", "--format", "markdown"]).output.startswith("### Locked leaf deleted")
    answer = json.loads(run.invoke(app, ["show", "x.toml", "--json"]).output)
    jsonschema.validate(answer, SCHEMAS["show"])
    assert (answer["verdict"], answer["violations"][0]["step"], answer["steps"]) == ("violated", 2, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.ndjson"], "no such file"),
        (["x.toml", "-o", "a.png"], "no format for the ending"),
        (["x.toml", "--format", "pdf"], "there is html"),
        (["x.toml", "-o", "no/where.html"], "No such file"),
        (["x.toml", "--megabytes", "900"], "has room for"),
    ],
)
def test_show_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text(SCENARIO)
    result = run.invoke(app, ["show", *arguments])
    assert isinstance(result.exception, BadArgument)
    assert words in str(result.exception)
