"""The shadow around a core of its own small interface: what it forwards, tells, and does about a broken rule."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pinproof.conformance
import pytest
import torch
from pinproof.conformance.shadow import BadSettings, Settings, ShadowViolation, forwarded, shadow_of, wrap
from pinproof.conformance.shadow.calls import tell_before
from pinproof.conformance.shadow.reporting import METRIC, expanded, runs
from pinproof.conformance.shadow.telling import Teller

ROOT = Path(pinproof.conformance.__file__).parents[1]


class Which(int, Enum):
    FULL = 0


class Base:
    def inherited(self, number: int) -> int:
        return number


class Interface(Base, ABC):
    page_size: int
    is_write_back: bool
    digest: int = 0

    @abstractmethod
    def inc_lock_ref(self, node_id: int) -> object: ...

    @abstractmethod
    def dec_lock_ref(self, node_id: int, params: object, skip_swa: bool = False) -> object: ...

    @abstractmethod
    def demote(self, node_id: int) -> Any: ...

    @abstractmethod
    def size(self, *, of: str) -> str: ...

    @property
    @abstractmethod
    def empty(self) -> str: ...


class Core(Interface):
    """A core with two pages of one token; it takes nothing seriously."""

    def __init__(self) -> None:
        self.page_size, self.is_write_back, self.private = 1, False, [1]
        self.frees: list[int] = []
        self.me: Any = self
        self.asked: list[int] = []

    def inc_lock_ref(self, node_id: int) -> object:
        if node_id == 99:
            raise KeyError(node_id)
        self.asked.append(node_id)
        if node_id > 10:
            self.me.inc_lock_ref(node_id - 10)
        return self.private

    def dec_lock_ref(self, node_id: int, params: object, skip_swa: bool = False) -> object:
        self.asked.append(-node_id)
        return (params, skip_swa)

    def demote(self, node_id: int) -> Any:
        return SimpleNamespace(device_frees={Which.FULL: [torch.tensor(self.frees)]}, host_frees={})

    def size(self, *, of: str) -> str:
        return of

    @property
    def empty(self) -> str:
        return "empty"


Make = Callable[..., tuple[Any, Core]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def shadow(mode: str = "observe", **settings: Any) -> tuple[Any, Core]:
        inner = Core()
        return wrap(inner, Interface, ("full",), Settings(mode, str(tmp_path / "t.ndjson"), **settings)), inner

    return shadow


def lines(core: Any, tmp_path: Path) -> list[dict[str, Any]]:
    shadow_of(core).reporter.close()
    return [json.loads(line) for line in (tmp_path / "t.ndjson").read_text().splitlines()]


def test_everything_is_forwarded(make: Make) -> None:
    core, inner = make()
    assert isinstance(core, Interface)
    assert isinstance(core, Core)
    assert type(core).__name__ == "ShadowedInterface"
    assert core.inc_lock_ref(3) is inner.private
    token = object()
    assert core.dec_lock_ref(3, token, skip_swa=True) == (token, True)
    assert core.size(of="host") == "host"
    assert core.inherited(4) == 4
    assert core.empty == "empty"
    assert core.private is inner.private
    core.private = core.is_write_back = True
    assert (inner.private, inner.is_write_back, core.digest) == (True, True, 0)
    core.digest = 7
    assert inner.digest == 7
    del core.private
    assert not hasattr(inner, "private")
    with pytest.raises(KeyError):
        core.inc_lock_ref(99)
    with pytest.raises(AttributeError, match="nothing"):
        _ = core.nothing


def test_the_class_has_every_member_of_the_interface() -> None:
    assert forwarded(Interface) == {
        "inherited": "method", "page_size": "attribute", "is_write_back": "attribute", "digest": "attribute",
        "inc_lock_ref": "method", "dec_lock_ref": "method", "demote": "method", "size": "method", "empty": "property",
    }  # fmt: skip


def test_a_call_inside_a_call_is_not_told(make: Make, tmp_path: Path) -> None:
    core, inner = make()
    inner.me = core
    core.inc_lock_ref(14)
    assert inner.asked == [14, 4]
    assert [row["node"] for row in lines(core, tmp_path)[1:]] == [14]


def test_what_is_told(make: Make, tmp_path: Path) -> None:
    core, inner = make()
    core.is_write_back = True
    core.inc_lock_ref(node_id=3)
    with pytest.raises(KeyError):
        core.inc_lock_ref(99)
    inner.frees = [4, 5, 9]
    core.size(of="secret")
    core.demote(8)
    assert lines(core, tmp_path) == [
        {"trace": "pinproof-shadow/1", "core": "Core", "components": ["full"], "page_size": 1},
        {"seq": 0, "call": "set", "field": "is_write_back", "value": True},
        {"seq": 1, "call": "inc_lock_ref", "node": 3},
        {"seq": 2, "call": "inc_lock_ref", "node": 99, "raised": "KeyError"},
        {"seq": 3, "call": "demote", "node": 8, "frees": [["device", "full", [[4, 2], [9, 1]]]]},
    ]


def test_raise_stops_a_wrong_argument_before_the_core(make: Make, tmp_path: Path) -> None:
    core, inner = make("raise")
    with pytest.raises(ShadowViolation, match=r"call 0 dec_lock_ref: node 5 .*\[release.device-locks") as caught:
        core.dec_lock_ref(5, None)
    assert inner.asked == []
    assert caught.value.result is None
    assert lines(core, tmp_path)[1]["breaches"][0][0] == "release.device-locks-belong-to-somebody"


def test_raise_hands_over_what_the_core_gave_back(make: Make) -> None:
    core, inner = make("raise")
    inner.frees = [4]
    core.demote(8)
    with pytest.raises(ShadowViolation, match="freed already at call 0") as caught:
        core.demote(8)
    assert caught.value.result.host_frees == {}


def test_observe_logs_a_kind_less_and_less_often(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    core, _ = make()
    with caplog.at_level(logging.ERROR):
        for _ in range(9):
            core.dec_lock_ref(5, None)
    assert [record.args[-1] for record in caplog.records if isinstance(record.args, tuple)] == [1, 2, 4, 8]
    assert "node 5 is unlocked, and nobody has locked it" in caplog.text


def test_count_counts_for_prometheus(make: Make, tmp_path: Path) -> None:
    core, inner = make("count", metrics=str(tmp_path / "shadow.prom"))
    assert "{" not in (tmp_path / "shadow.prom").read_text()
    for _ in range(3):
        core.dec_lock_ref(5, None)
    assert inner.asked == [-5] * 3
    text = (tmp_path / "shadow.prom").read_text()
    assert text == shadow_of(core).reporter.exposition()
    assert f"# TYPE {METRIC}_total counter" in text
    assert f'{METRIC}_total{{property="release.device-locks-belong-to-somebody",call="dec_lock_ref"}} 3' in text


def test_count_uses_the_client_where_it_is(make: Make) -> None:
    client = pytest.importorskip("prometheus_client")
    core, _ = make("count")
    core.dec_lock_ref(5, None)
    core.dec_lock_ref(5, None)
    labels = {"property": "release.device-locks-belong-to-somebody", "call": "dec_lock_ref"}
    assert client.REGISTRY.get_sample_value(f"{METRIC}_total", labels) == 2


def test_a_mistake_of_its_own_stays_its_own(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    core, inner = make()
    core.inc_lock_ref(3)
    inner.demote = lambda node_id: "nonsense"  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        assert core.demote(8) == core.demote(8) == "nonsense"
    assert "only forwards from now on" in caplog.text
    assert shadow_of(core).broken
    core, inner = make("raise")
    inner.demote = lambda node_id: "nonsense"  # type: ignore[method-assign]
    with pytest.raises(AttributeError):
        core.demote(8)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PINPROOF_SHADOW", "shout", "PINPROOF_SHADOW is 'shout', not observe, count or raise"),
        ("PINPROOF_SHADOW_FLUSH", "0", "PINPROOF_SHADOW_FLUSH is 0"),
        ("PINPROOF_SHADOW_FLUSH", "often", "PINPROOF_SHADOW_FLUSH is 'often', not a number"),
        ("PINPROOF_SHADOW_READ_GPU", "yes", "PINPROOF_SHADOW_READ_GPU is 'yes', not 0 or 1"),
    ],
)
def test_a_bad_setting_is_named(name: str, value: str, words: str) -> None:
    with pytest.raises(BadSettings, match=words):
        Settings.from_environment({name: value})


def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    for settings in (Settings(trace=str(tmp_path / "no" / "t")), Settings(metrics=str(tmp_path / "no" / "m"))):
        with pytest.raises(BadSettings, match="PINPROOF_SHADOW_"):
            wrap(Core(), Interface, ("full",), settings)


def test_settings_come_from_the_environment() -> None:
    assert Settings.from_environment({}) == Settings()
    given = {"PINPROOF_SHADOW": "count", "PINPROOF_SHADOW_TRACE": "t-{pid}", "PINPROOF_SHADOW_READ_GPU": "1"}
    assert Settings.from_environment(given) == Settings("count", "t-{pid}", "", True, 64)


def test_runs_are_the_units() -> None:
    assert runs([3, 4, 5, 9, 2]) == [[3, 3], [9, 1], [2, 1]]
    assert expanded(runs([3, 4, 5, 9, 2])) == [3, 4, 5, 9, 2]
    assert runs(None) is expanded(None) is None


class OnGpu:
    """Stands where a tensor in GPU memory would; reading it is seen."""

    device = SimpleNamespace(type="cuda")

    def __init__(self) -> None:
        self.read = 0

    def tolist(self) -> list[int]:
        self.read += 1
        return [4]


def test_slots_in_gpu_memory_are_read_only_when_asked_for() -> None:
    tensor = OnGpu()
    assert Teller(1, ("full",)).units(tensor, "full") is None
    assert tensor.read == 0
    assert Teller(1, ("full",), read_gpu=True).units(tensor, "full") == [4]


def test_slots_are_told_in_pages() -> None:
    teller = Teller(4, ("full", "mamba"))
    slots = torch.tensor([8, 9, 10, 11, 20, 21, 22, 23])
    assert teller.units(slots, "full") == [2, 5]
    assert teller.units(torch.tensor([9]), "mamba") == [9]


def key(tokens: list[int], extra: str | None = None) -> Any:
    class Key(SimpleNamespace):
        def __len__(self) -> int:
            return len(self.token_ids)

    return Key(token_ids=array("q", tokens), limit=None, is_bigram=False, extra_key=extra, cache_salt=None)


def test_keys_are_hashed_under_a_key_of_the_run() -> None:
    one, other = Teller(1, ()), Teller(1, ())
    assert one.hashed(key([1, 2])) == one.hashed(key([1, 2]))
    assert len({one.hashed(key([1, 2])), one.hashed(key([1, 3])), one.hashed(key([1, 2], "x"))}) == 3
    assert one.hashed(key([1, 2])) != other.hashed(key([1, 2]))


def test_an_insert_without_slots_blinds_it() -> None:
    # The core then uses the token ids for slots: they must not get into a trace by way of its frees.
    teller = Teller(1, ("full",))
    assert teller.units(torch.tensor([5]), "full") == [5]
    record: dict[str, Any] = {"seq": 0, "call": "begin_insert"}
    tell_before(teller, record, {"params": SimpleNamespace(key=key([777, 778]), value=None)})
    assert "gives" not in record
    assert teller.units(torch.tensor([777]), "full") is None


def test_it_needs_the_standard_library_only(tmp_path: Path) -> None:
    (tmp_path / "pinproof").symlink_to(ROOT)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); import pinproof.conformance.shadow; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; print(sorted(new - sys.stdlib_module_names))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['pinproof']"
