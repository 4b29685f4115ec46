"""Scenarios, counterexamples, explorations and ITF traces as stories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from ..conformance.checker import Checker
from ..conformance.events import Event, NodeState, event_args
from ..conformance.scenario import Scenario
from ..model.algebra import And, Formula, GuardKind
from ..model.errors import BadArgument, ModelError
from ..model.instance import Instance, instance
from ..model.machine import ReferenceMachine
from ..model.mutants import mutant as mutant_of
from ..model.state import ROOT_NODE, State
from ..model.vocabulary import Component, Policy, relations
from ..proofs.picture import Picture
from .formula import text
from .judge import Judge, Replay, Violation
from .source import Source, seen, setting, tree_of
from .why import Fact, Why
from .words import BEGINS, split_name

GUARDS: tuple[GuardKind, ...] = ("require", "reason", "never", "promise")


def from_steps(data: Mapping[str, Any], name: str, reproduce: str = "") -> Source:
    """A scenario: policy, components, and a list of actions called `step`, `steps`, `event`, `events` or `trace`.

    Raises:
        BadArgument: there is no such list, or a step is none.
    """
    rows = next((data[k] for k in ("step", "steps", "event", "events", "trace") if isinstance(data.get(k), list)), None)
    if rows is None:
        raise BadArgument(f"{name}: no list of steps")
    policy, components = setting(data, name)
    title = str(data.get("title") or data.get("words") or data.get("name") or name)
    judge = Judge(Checker(policy, components, complete=False))
    events = told_by(ReferenceMachine(policy, components), rows, name)
    about: dict[str, object] = {"policy": policy, "components": "+".join(components)}
    for key in ("report", "source"):
        if isinstance(data.get(key), str):
            about[key] = data[key]
    return Source(title, components, events, judge, about, reproduce=reproduce)


def from_scenario(
    scenario: Scenario, policy: Policy | None = None, components: tuple[Component, ...] | None = None
) -> Source:
    """A scenario on the model, under the first policy and component set that it names and that are asked for.

    Raises:
        BadArgument: it does not apply there, or has operations only (a target has to replay those).
    """
    settings = [(p, c) for p, c in scenario.settings if policy in (None, p) and components in (None, c)]
    if not settings:
        raise BadArgument(f"{scenario.name} is for {', '.join(scenario.policies)} and {', '.join(scenario.components)}")
    if not scenario.step:
        raise BadArgument(f"{scenario.name} has operations only: say with --target what is to replay it")
    chosen, parts = settings[0]
    ids, rows = {"root": ROOT_NODE}, []
    following = {"node": 1, "holder": 1}
    for step in scenario.step:
        args: dict[str, int | str] = {}
        for parameter, name in step.args.items():
            kind = "holder" if parameter == "holder" else "node"
            if name not in ids:
                ids[name], following[kind] = following[kind], following[kind] + 1
            args[parameter] = ids[name]
        refused = step.expect != "done"
        outcome = {"outcome": "refused", "reason": step.words or "as the scenario expects"} if refused else {}
        rows.append({"action": step.action, "args": args, "tag": step.words, **outcome})
    about: dict[str, object] = {"policy": chosen, "components": "+".join(parts)}
    if scenario.source:
        about["source"] = scenario.source
    nodes = {name for step in scenario.step for parameter, name in step.args.items() if parameter != "holder"}
    names = {number: name for name, number in ids.items() if name in nodes and number != ROOT_NODE}
    judge = Judge(Checker(chosen, parts, complete=False))
    events = told_by(ReferenceMachine(chosen, parts), rows, scenario.name)
    title = scenario.name.replace("-", " ").capitalize()
    again = f"pinproof replay {scenario.name}"
    return Source(title, parts, events, judge, about, names=names, reproduce=again, note=scenario.words)


def told_by(machine: ReferenceMachine, rows: Iterable[Mapping[str, Any]], where: str) -> Iterator[Event]:
    """Steps as events: what the model does is what is seen. From the first that it does not do on, nothing is seen."""
    lost = False
    for seq, row in enumerate(rows):
        if not isinstance(row, Mapping) or not isinstance(row.get("action"), str):
            raise BadArgument(f"{where}, step {seq}: no action")
        args = {k: v for k, v in row.get("args", {}).items() if isinstance(v, int)}
        component = row.get("args", {}).get("component")
        full = f"{row['action']}.{component}" if component else row["action"]
        name, shown = event_args(full, args)
        refused = row.get("outcome") == "refused"
        post: dict[int, NodeState | None] = {}
        if not lost and not refused:
            try:
                outcome = machine.step(full, {**args, **_window(machine, full, args)})
                post = {n: seen(machine.state, n, machine.components) for n in sorted(outcome.touched)}
                post.pop(ROOT_NODE, None) if not outcome else None
                lost = not outcome
            except ModelError:
                lost = True
        reason = str(row.get("reason") or "")
        yield Event(seq, name, shown, "refused" if refused else "done", reason, [], post, str(row.get("tag") or ""))


def from_counterexample(data: Mapping[str, Any]) -> Source:
    """A counterexample to induction: one step, from a state that need not be reachable."""
    obligation = str(data.get("obligation", ""))
    policy, components = setting(data, obligation)
    start = Picture.read(data["before"]).state(relations(components))
    nodes = set(start.marks["live"])
    post: dict[int, NodeState | None] = {}
    if data.get("after"):
        after = Picture.read(data["after"]).state(relations(components))
        post = {n: seen(after, n, components) for n in sorted(nodes | after.marks["live"])}
    subject, action = str(data.get("subject", "")), str(data.get("action") or "start")
    kinds = {"consecution": "property", "initiation": "property", "necessity": "false conflict"}
    kind = kinds.get(str(data.get("kind")), str(data.get("kind")))
    args = {str(k): int(v) for k, v in data.get("args", {}).items()}
    conjunct, facts = "", tuple(Fact(str(part), _named(str(part))) for part in data.get("false", ()))
    if kind in ("promise", "never", "false conflict"):
        subject = f"{action}/{subject}"
        found = _decided(instance(policy, components), Why(start), kind, subject, action, args)
        conjunct, facts = found if found[0] else (conjunct, facts)
    violation = Violation(kind, subject, str(data.get("words", "")), conjunct, facts, source=obligation)
    machine = ReferenceMachine(policy, components)
    machine.state = start
    name, shown = event_args(action, args)
    again = f"pinproof prove --policy {policy} --components {'+'.join(components)}"
    note = "A counterexample to induction: the state before the step has every property, but may not be reachable."
    return Source(
        f"{action} breaks {subject}", components, [Event(0, name, shown, "done", post=post)], Replay(machine),
        {"obligation": obligation}, {0: violation}, tree_of(start, components), reproduce=again, note=note,
    )  # fmt: skip


def from_exploration(data: Mapping[str, Any]) -> Source:
    """A shortest counterexample from the explorer."""
    found, name = data["violation"], str(data["name"])
    policy, components = _instance_name(name)
    rows = list(found["trace"])
    known = _protocol(policy, components, data.get("mutant"))
    rule = str(found["rule"]).replace(": ", "/")
    conjunct, facts = _reasons(known, rows, str(found.get("kind")), rule, dict(found.get("args", {})))
    violation = Violation(str(found.get("kind")), rule, str(found["words"]), conjunct, facts)
    about: dict[str, object] = {k: data[k] for k in ("mutant", "nodes", "holders", "states") if data.get(k)}
    again = f"pinproof explore --policy {policy} --components {'+'.join(components)}"
    again += "".join(f" --{k} {data[k]}" for k in ("nodes", "holders", "mutant") if data.get(k))
    return Source(
        f"A shortest way to break {rule}", components, told_by(ReferenceMachine(known), rows, name),
        Replay(ReferenceMachine(known)), {"policy": policy, "components": "+".join(components), **about},
        {max(0, len(rows) - 1): violation}, reproduce=again,
    )  # fmt: skip


def _reasons(
    known: Instance, rows: list[Mapping[str, Any]], kind: str, rule: str, args: Mapping[str, int]
) -> tuple[str, tuple[Fact, ...]]:
    """Why a rule does not hold where the steps lead: a property after them, a guard before the last."""
    machine = ReferenceMachine(known)
    kinds: dict[int, str] = {}
    for row in rows if kind == "property" else rows[:-1]:
        machine.step(row["action"], row["args"])
    for row in rows:
        begun = BEGINS.get(split_name(row["action"])[0])
        if begun and "holder" in row["args"]:
            kinds.setdefault(row["args"]["holder"], begun)
    why = Why(machine.state, name_holder=lambda h: f"{kinds.get(h, 'operation')} {h}")
    return _decided(known, why, kind, rule, rows[-1]["action"] if rows else "", args)


def _decided(
    known: Instance, why: Why, kind: str, rule: str, name: str, args: Mapping[str, int]
) -> tuple[str, tuple[Fact, ...]]:
    """The false conjuncts of a rule in a state, and the facts that make them so; only the names where it holds."""
    told = ", ".join(f"{k} {v}" for k, v in args.items())
    nothing = "", ((Fact(f"it fails for {told}", _named(told)),) if told else ())
    action = known.actions.get(name)
    formula: Formula | None = None
    if kind == "property":
        formula = known.property(rule).formula
        action = None
    elif action is not None:
        guard = next((g for g in action.guards(*GUARDS) if g.name == rule.partition("/")[2]), None)
        formula = None if guard is None else guard.danger if kind == "false conflict" else guard.formula
        why.freeze(action, args)
    if formula is None or -1 in args.values() or why.holds(formula, args):
        return nothing
    parts = formula.parts if isinstance(formula, And) else (formula,)
    false = [part for part in parts if not why.holds(part, args)]
    facts = tuple(fact for part in false for fact in why.facts(part, args))
    return " & ".join(text(why.deciding(part, args), args, action) for part in false), facts


def from_itf(data: Mapping[str, Any], name: str) -> Source:
    """A trace in the Informal Trace Format, as `pinproof explore --itf` writes it."""
    meta = data.get("#meta", {})
    policy, components = _instance_name(str(meta.get("source", "")).rpartition(" ")[2])
    events: list[Event] = []
    before: set[int] = set()
    for state in data["states"]:
        now = _itf_state(state, components)
        live = set(now.marks["live"])
        if state.get("action"):
            post = {n: seen(now, n, components) for n in sorted(live | before)}
            action, args = event_args(str(state["action"]), state.get("args", {}))
            done = state.get("outcome") in (None, "", "done")
            events.append(Event(len(events), action, args, "done", post=post if done else {}))
        before = live
    judge = Judge(Checker(policy, components, complete=False))
    about: dict[str, object] = {"policy": policy, "components": "+".join(components)}
    return Source(str(meta.get("description") or name), components, events, judge, about)


def _instance_name(name: str) -> tuple[Policy, tuple[Component, ...]]:
    policy, _, parts = name.partition("/")
    return setting({"policy": policy, "components": parts.partition(" ")[0]}, name)


def _protocol(policy: Policy, components: tuple[Component, ...], mutant: object) -> Instance:
    if not mutant:
        return instance(policy, components)
    return mutant_of(str(mutant)).instance(policy, components)


def _itf_state(data: Mapping[str, Any], components: tuple[Component, ...]) -> State:
    known = tuple(relations(components))
    sets = {r.name: data.get(r.name, {}).get("#set", []) for r in known}
    facts = {name: [m["#tup"] if isinstance(m, dict) else [m] for m in members] for name, members in sets.items()}
    parents = dict(data.get("parent", {}).get("#map", []))
    return Picture.read({"parents": parents, "facts": facts}).state(known)


def _window(machine: ReferenceMachine, name: str, args: Mapping[str, int]) -> dict[str, int]:
    action = machine.instance.actions.get(name)
    wants = action is not None and any(q.var.name == "boundary" for q in action.parameters)
    return {"boundary": args.get("node", ROOT_NODE)} if wants and "boundary" not in args else {}


def _named(words: str) -> tuple[int, ...]:
    """The nodes that a sentence names."""
    parts = words.replace(",", " ").replace(".", " ").split()
    return tuple(dict.fromkeys(int(b) for a, b in pairwise(parts) if a in "node n m" and b.isdigit()))
