"""Environments of releases: what is asked for, what an install leaves behind, and what it says when it fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from pinproof.conformance.sglang import environment


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pinproof" / "targets"


def test_the_cache_folder_follows_the_environment(cache: Path) -> None:
    assert environment.root() == cache


def test_an_unknown_release_is_named_with_the_known_ones() -> None:
    with pytest.raises(environment.UnknownRelease, match=r"'0\.5\.16'.*0\.5\.17.*0\.5\.23"):
        environment.install("0.5.16")


def test_a_release_that_is_not_there_says_how_to_get_it(cache: Path) -> None:
    with pytest.raises(environment.NotInstalled, match=r"targets install sglang==0\.5\.23"):
        environment.find("0.5.23")


@pytest.mark.parametrize(("version", "cores"), [("0.5.18", ("python",)), ("0.5.19", ("python", "rust"))])
def test_the_rust_core_comes_with_0_5_19(version: str, cores: tuple[str, ...]) -> None:
    found = environment.Environment(version, Path("python"), Path("source"))
    assert found.cores == cores


def test_a_core_that_a_release_lacks_is_refused() -> None:
    found = environment.Environment("0.5.18", Path("python"), Path("source"))
    with pytest.raises(environment.EnvironmentProblem, match="no 'rust' core"):
        found.command("rust")


def test_a_failed_step_is_named_and_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if command[1:3] == ["-m", "venv"]:
            return subprocess.CompletedProcess(command, 0, "", "")
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no network\n")

    monkeypatch.setattr(environment.subprocess, "run", fail)
    with pytest.raises(environment.InstallFailed, match="installing the pinned requirements failed: ERROR: no network"):
        environment.install("0.5.23")
    assert list(cache.iterdir()) == []


def test_what_is_half_there_does_not_count(cache: Path) -> None:
    (cache / "sglang-0.5.23").mkdir(parents=True)
    with pytest.raises(environment.NotInstalled):
        environment.find("0.5.23")
