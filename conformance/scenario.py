"""Named interleavings as data: TOML files that the model and every target can replay.

A scenario has `step`s, single actions of the protocol with names for nodes and holders, or `op`s, operations that any
target answers, or both. See specs/scenarios.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

import msgspec

from .. import specs
from ..model.machine import ReferenceMachine
from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy
from .errors import BadScenario
from .events import NodeState
from .situation import HOLDERS, NODES, Operation, Pick

Expectation = Literal["done", "refused", "senseless", "unjustified", "violated"]


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """One action of the protocol.

    Attributes:
        action: the model's name.
        args: names of nodes and holders; `root` is the root. A name that is new names what the action makes.
        expect: what the protocol says to it.
        shows: fields of nodes, by name, that can be seen afterwards; "none" is an absent one.
        words: why this step is here.
    """

    action: str
    args: dict[str, str] = {}
    expect: Expectation = "done"
    shows: dict[str, dict[str, Any]] = {}
    words: str = ""


class Op(msgspec.Struct, forbid_unknown_fields=True):
    """One operation of the target protocol.

    Attributes:
        args: values, `{among, index}` picks, or names that an earlier `bind` bound.
        bind: names for fields of the result.
        expect: "done", or "refused" if the target must decline; "any" if it may.
    """

    name: str
    args: dict[str, Any] = {}
    bind: dict[str, str] = {}
    expect: Literal["done", "refused", "any"] = "any"
    words: str = ""


class Scenario(msgspec.Struct, forbid_unknown_fields=True):
    """A scenario file.

    Attributes:
        source: the report that it comes from, by project and number.
        policies, components: where it applies; components as `full+swa`.
        verdict: what a correct target makes of it.
        config: sizes, where the defaults do not do (see `targets.base.Configuration`).
    """

    name: str
    words: str
    policies: list[Policy]
    components: list[str]
    source: str = ""
    verdict: Literal["holds", "violated"] = "holds"
    config: dict[str, int | bool] = {}
    step: list[Step] = []
    op: list[Op] = []

    def __post_init__(self) -> None:
        if not self.step and not self.op:
            raise ValueError("there is no step and no op")
        for policy in self.policies:
            if policy not in POLICIES:
                raise ValueError(f"policies: {policy!r} is none of {', '.join(POLICIES)}")
        for joined in self.components:
            if tuple(joined.split("+")) not in COMPONENT_SETS:
                raise ValueError(f"components: {joined!r} is no component set")
        for step in self.step:
            for node, fields in step.shows.items():
                unknown = set(fields) - set(NodeState.__struct_fields__)
                if unknown:
                    raise ValueError(f"step {step.action}: shows.{node} has no field {', '.join(sorted(unknown))}")

    @property
    def settings(self) -> Iterator[tuple[Policy, tuple[Component, ...]]]:
        """Every policy and component set that it applies to."""
        for policy in self.policies:
            for joined in self.components:
                yield policy, tuple(joined.split("+"))  # type: ignore[arg-type]

    def operations(self) -> list[Operation]:
        """Its `op`s as a run; names that were bound stay strings."""
        return [Operation(op.name, {k: _pick(v) for k, v in op.args.items()}) for op in self.op]


def _pick(value: Any) -> Any:
    if isinstance(value, Mapping) and "among" in value:
        if value["among"] not in NODES and value["among"] not in HOLDERS and value["among"] != "nobody":
            raise BadScenario(f"among: {value['among']!r} is no kind of node or holder")
        return Pick(value["among"], int(value.get("index", 0)))
    return value


def load(source: Path | Traversable | str) -> Scenario:
    """A scenario by path, or by the name of one that comes with the package.

    Raises:
        BadScenario: names the file, and the field where there is one.
    """
    if isinstance(source, str):
        known = {s.name.removesuffix(".toml"): s for s in shipped()}
        path: Path | Traversable = known.get(source.removesuffix(".toml"), Path(source))
    else:
        path = source
    try:
        data = tomllib.loads(path.read_text("utf-8"))
        return msgspec.convert(data, Scenario)
    except OSError as error:
        raise BadScenario(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError, BadScenario) as error:
        raise BadScenario(f"{path.name}: {error}") from None


def shipped() -> list[Traversable]:
    """The scenario files that come with the package, by name."""
    folder = specs.files() / "scenarios"
    return sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)


def write(scenario: Scenario, path: Path) -> None:
    """Write a scenario as TOML that `load` reads back to the same."""
    lines = [
        f"{name} = {_toml(getattr(scenario, name))}" for name in ("name", "words", "source", "policies", "components")
    ]
    lines.append(f"verdict = {_toml(scenario.verdict)}")
    if scenario.config:
        lines.append(f"config = {_toml(scenario.config)}")
    for kind, rows in (("step", scenario.step), ("op", scenario.op)):
        for row in rows:
            lines += ["", f"[[{kind}]]"]
            default = type(row)("")
            for name in row.__struct_fields__:
                value = getattr(row, name)
                if name in ("name", "action") or value != getattr(default, name):
                    lines.append(f"{name} = {_toml(value)}")
    path.write_text("\n".join(lines) + "\n", "utf-8")


def from_run(
    name: str, words: str, policy: Policy, components: Sequence[str], run: Sequence[Operation], **fields: Any
) -> Scenario:
    """A scenario from the operations of a run."""
    ops = [
        Op(o.name, {k: {"among": v.among, "index": v.index} if isinstance(v, Pick) else v for k, v in o.args.items()})
        for o in run
    ]
    return Scenario(name, words, [policy], ["+".join(components)], op=ops, **fields)


def steps_of(policy: Policy, components: Sequence[Component], run: Sequence[Operation]) -> list[Step]:
    """Steps from a run of single actions, each with what the protocol says to it; those that make no sense left out."""
    machine = ReferenceMachine(policy, tuple(components))
    steps = []
    for each in run:
        args: dict[str, int] = each.args["args"]
        outcome = machine.step(each.args["action"], args)
        if outcome.verdict == "senseless":
            continue
        names = {k: f"h{v}" if k == "holder" else f"n{v}" if v else "root" for k, v in args.items()}
        steps.append(Step(each.args["action"], names, outcome.verdict))
    return steps


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k if k.isidentifier() else json.dumps(k)} = {_toml(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(v) for v in value)}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
