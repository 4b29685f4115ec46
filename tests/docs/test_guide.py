"""The guide is true: every page's files are written, its commands run, its output is what they print.

A page is one story in one empty folder. Fenced blocks are read in order:

* `console`: lines with `$` are run; `# exit N` states their exit code; other lines must appear in the output, with `…`
  for anything
* any language with a `title`: a file of that name; `diff`: a change of it, or of a copy of the package
* `<!-- needs: PROGRAM -->` or `sglang==VERSION` before a block: skipped where that is not to be had ·
  `<!-- not run: why -->`: never run
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pinproof.conformance.sglang import environment

ROOT = Path(__file__).parents[2]
PAGES = [p for p in sorted((ROOT / "docs").glob("*.md")) if "```console" in p.read_text()]
BLOCK = re.compile(r'(?:<!-- (needs|not run): ([^>]+) -->\n)?```(\w+)(?: title="([^"]+)")?\n(.*?)```', re.S)
ROOMS = ("specs", "model", "proofs", "impl", "conformance", "view", "cli")


@dataclass(slots=True)
class Reader:
    """Does what a page says, in `folder`."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        programs = self.folder / ".programs"
        programs.mkdir()
        for name, code in (("pinproof", "-c 'from pinproof.cli.main import main; main()'"), ("python", "")):
            shim = programs / name
            shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" {code} "$@"\n')
            shim.chmod(0o755)
        self.env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "NO_COLOR": "1", "COLUMNS": "200"}

    def file(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def change(self, name: str, diff: str) -> None:
        """Replace the lines of a diff; of a file of the package, in a copy that later commands run."""
        file = self.folder / name
        if not file.exists():
            file = self._copy() / name
        lines = diff.splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] in " -")
        new = "".join(line[1:] for line in lines if line[0] in " +")
        text = file.read_text()
        assert text.count(old) == 1, f"{name} has this {text.count(old)} times:\n{old}"
        file.write_text(text.replace(old, new))

    def _copy(self) -> Path:
        copy = self.folder / ".copy" / "pinproof"
        if not copy.exists():
            copy.mkdir(parents=True)
            for room in ROOMS:
                shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
            self.env["PYTHONPATH"] = str(copy.parent)
        return copy

    def console(self, text: str) -> None:
        for command, wanted in commands(text):
            found = re.search(r"\s+# exit (\d+)$", command)
            status = int(found[1]) if found else 0
            shown = re.sub(r"\s+# exit \d+$", "", command)
            done = subprocess.run(
                ["bash", "-c", shown], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=300
            )
            said = done.stdout + done.stderr
            assert done.returncode == status, f"$ {shown}\nleft with {done.returncode}:\n{said}"
            flat = " ".join(said.split())
            for line in wanted:
                pattern = ".*?".join(re.escape(" ".join(part.split())) for part in line.split("…"))
                assert re.search(pattern, flat), f"$ {shown}\ndoes not print {line!r}:\n{said}"


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines that must appear in its output."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *lines = part.strip().splitlines()
        yield command, [line for line in lines if line.strip(" …")]


def missing(what: str) -> bool:
    """Whether a program, or the environment of a release of SGLang, is not to be had here."""
    package, _, version = what.partition("==")
    if package != "sglang":
        return shutil.which(what) is None
    try:
        environment.install(version)
    except environment.EnvironmentProblem as problem:
        print(problem)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for mark, why, language, title, text in BLOCK.findall(page.read_text()):
        if mark == "not run" or (mark == "needs" and missing(why.strip())):
            print(f"{page.name}: a block is not run: {why}")
        elif language == "diff":
            reader.change(title, text)
        elif language == "console":
            reader.console(text)
        elif title and language in ("python", "js", "toml"):
            reader.file(title, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("$ false\n", "left with 1"), ("$ true  # exit 1\n", "left with 0"), ("$ echo a b\na … c\n", "does not print")],
)
def test_a_page_that_is_wrong_is_seen(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        Reader(tmp_path).console(text)


def test_images_of_the_guide_are_there() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for image in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text()):
            assert (ROOT / "docs" / image).stat().st_size > 10_000, (page.name, image)


def test_the_site_builds_strictly(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install '.[docs]'")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-q",
        "-f",
        str(ROOT / "mkdocs.yml"),
        "-d",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "own" / "index.html").exists()
