"""What is tested of the bare cores holds over their shadows: the same tests, with a shadow around each core.

Where a release has no known defect (the driver and the round trip of the newest), the shadow raises at whatever it
finds; elsewhere it observes, and the tests see what they see without it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pinproof.conformance.diff import diff

from .conftest import Client, release

HERE = Path(__file__).parent
SUITES = ("test_driver", "test_round_trip", "test_known_conflicts", "test_findings")
WORKER = str(HERE / "shadow_worker.py")


def loaded(name: str) -> ModuleType:
    """A module of this folder, under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"{__package__}.over_shadow_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULES = {name: loaded(name) for name in SUITES}
STRICT = {("test_driver", "0.5.23"), ("test_round_trip", "0.5.23")}
for _suite, _module in MODULES.items():
    for _name, _test in list(vars(_module).items()):
        if _name.startswith("test_"):
            _test.suite = _suite
            globals()[f"test_over_a_shadow_{_suite[5:]}_{_name[5:]}"] = _test


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[Any, Any]]:
    """Workers that were started, closed at the end."""
    started: dict[Any, Any] = {}
    yield started
    for client in started.values():
        client.close()


Start = Callable[[str, str, str], Any]


@pytest.fixture
def shadowed(clients: dict[Any, Any], importable: str, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """`shadowed(version, core, mode)`: a client of a worker whose core has a shadow; `traces` is where it records."""

    def start(version: str, core: str, mode: str) -> Any:
        found = release(version)
        key = (version, core, mode)
        if key not in clients:
            traces = tmp_path_factory.mktemp("-".join(key))
            settings = {
                "PYTHONPATH": importable, "PINPROOF_SHADOW": mode, "PINPROOF_SHADOW_FLUSH": "1",
                "PINPROOF_SHADOW_TRACE": str(traces / "{n}.ndjson"),
            }  # fmt: skip
            command = [WORKER if part.endswith("worker.py") else part for part in found.command(core)]
            client = Client.__new__(Client)
            client._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, **settings},
            )  # fmt: skip
            client._next, client.traces = 0, traces
            clients[key] = client
        return clients[key]

    return start


@pytest.fixture
def workers(shadowed: Start, request: pytest.FixtureRequest) -> Callable[[str, str], Any]:
    """What the suites ask for their workers."""

    def start(version: str, core: str) -> Any:
        strict = (getattr(request.function, "suite", ""), version) in STRICT
        return shadowed(version, core, "raise" if strict else "observe")

    return start


def calls(client: Any) -> Iterator[dict[str, Any]]:
    """Every call in the traces of a worker."""
    for trace in sorted(client.traces.iterdir()):
        for line in trace.read_text().splitlines()[1:]:
            yield json.loads(line)


def test_the_suites_are_all_here() -> None:
    ours = sorted(name for name in globals() if name.startswith("test_over_a_shadow_"))
    theirs = sum(name.startswith("test_") for module in MODULES.values() for name in vars(module))
    assert len(ours) == theirs
    assert any("driver" in name for name in ours)


@pytest.mark.parametrize("core", ["python", "rust"])
def test_a_random_run_uses_what_is_checked(shadowed: Start, driver: Any, core: str) -> None:
    """The green of the driver means something: copies, frees, locks, marks and splits all come by."""
    client = shadowed("0.5.23", core, "raise")
    before = {trace.name for trace in client.traces.iterdir()}
    for seed, policy in ((5, "write_back"), (18, "write_through")):
        random = driver(seed, ["full", "swa", "mamba"], policy, 1)
        configuration = random.configuration()
        client.ask(configuration.pop("op"), **configuration)
        asked = 0

        def ask(op: str, **arguments: Any) -> Any:
            nonlocal asked
            asked += 1
            return client.ask(op, **arguments)

        while asked < 200:
            random.run(ask)
    seen: dict[str, int] = {}
    for trace in client.traces.iterdir():
        if trace.name not in before:
            for line in trace.read_text().splitlines()[1:]:
                record = json.loads(line)
                for field in ("gives", "frees", "reads", "writes", "pairs", "rebuilds", "splits", "backs"):
                    seen[field] = seen.get(field, 0) + (field in record)
    assert min(seen.values()) > 0, seen
    assert set(seen) == {"gives", "frees", "reads", "writes", "pairs", "rebuilds", "splits", "backs"}


@pytest.mark.parametrize(("version", "core"), [("0.5.18", "python"), ("0.5.19", "rust"), ("0.5.20", "python")])
def test_it_finds_the_host_lock_that_a_split_drops(shadowed: Start, version: str, core: str) -> None:
    """SGLang #38480, seen from the calls alone: storage reads host slots that reclaim frees."""
    client = shadowed(version, core, "observe")
    client.ask("configure", policy="write_back", components=["full"], page_size=1, window=4)
    node = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    client.ask("evict", component="full", pages=4)
    assert client.ask("storage_backup", node=node)["ok"]
    client.ask("insert", tokens=[1, 2])
    assert not [record for record in calls(client) if "breaches" in record and record["seq"] > 60]
    client.ask("reclaim", pages=2)
    *_, last = (record for record in calls(client) if "breaches" in record)
    assert last["call"] == "drive_host_eviction"
    assert last["breaches"][0][0] == "safety.stored-source-stays"


def test_both_cores_answer_the_same_calls_the_same(shadowed: Start, driver: Any, tmp_path: Path) -> None:
    """A workload on either core, call by call; then with one answer changed."""
    traces = {}
    for core in ("python", "rust"):
        client = shadowed("0.5.23", core, "raise")
        before = {trace.name for trace in client.traces.iterdir()}
        for seed, policy in ((5, "write_back"), (18, "write_through")):
            random, asked = driver(seed, ["full", "swa", "mamba"], policy, 1), 0
            configuration = random.configuration()
            client.ask(configuration.pop("op"), **configuration)

            def ask(op: str, client: Any = client, **arguments: Any) -> Any:
                nonlocal asked
                asked += 1
                return client.ask(op, **arguments)

            while asked < 150:
                random.run(ask)
        new = [trace for trace in client.traces.iterdir() if trace.name not in before]
        traces[core] = sorted(new, key=lambda trace: int(trace.stem))
    for python, rust in zip(traces["python"], traces["rust"], strict=True):
        found = diff(python, rust)
        assert (found.verdict, found.truncated) == ("holds", ())
        assert found.events > 300
        assert diff(rust).verdict == "holds"
    wrong = tmp_path / "wrong.ndjson"
    wrong.write_text(traces["rust"][0].read_text().replace('"mamba_exist":false', '"mamba_exist":true', 1))
    parting = diff(traces["python"][0], wrong).divergence
    assert parting is not None
    assert [field.field for field in parting.fields] == ["done"]


def test_offline_finds_what_online_found(shadowed: Start) -> None:
    client = shadowed("0.5.18", "python", "observe")
    client.ask("configure", policy="write_back", components=["full"], page_size=1, window=4)
    node = client.ask("insert", tokens=[1, 2, 3, 4])["result"]["node"]
    client.ask("evict", component="full", pages=4)
    client.ask("storage_backup", node=node)
    client.ask("insert", tokens=[1, 2])
    client.ask("reclaim", pages=2)
    trace = max(client.traces.iterdir(), key=lambda trace: int(trace.stem))
    online = next(record for record in map(json.loads, trace.read_text().splitlines()) if "breaches" in record)
    offline = diff(trace).divergence
    assert offline is not None
    assert (offline.seq, [offline.rule, offline.words]) == (online["seq"], online["breaches"][0])
