"""A Hypothesis state machine over the operations of any target: what it finds it shrinks itself, down to a scenario.

Faults are rules like all others: a copy that fails or ends halfway, slots or host memory that are refused, an operation
that is given up, a stale receipt, a reset at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from ..model.vocabulary import Component, Policy
from .driver import FAULTS
from .registry import open_target
from .scenario import Scenario, from_run
from .session import Session
from .situation import Operation, Pick
from .targets.base import Configuration, Target
from .violation import Violation

Opener = Callable[[], Target]
index = st.integers(0, 7)
pages = st.integers(0, 9)
words = st.lists(st.integers(1, 2), min_size=1, max_size=4)


def there(*kinds: str) -> Callable[[Any], bool]:
    """A precondition: there are nodes or holders of one of these kinds to pick from."""
    return lambda self: any(self.session.situation.among(kind) for kind in kinds)


def asked(name: str, most: int | None = None) -> Callable[[Any], bool]:
    """A precondition: that operation was asked for before; with `most`, not more often than that."""

    def count(self: Any) -> bool:
        log: list[Operation] = self.session.log
        times = sum(each.name == name for each in log)
        return times > 0 if most is None else times < most

    return count


class NotConforming(AssertionError):
    """The target broke a rule; carries what was found and the shortest run that shows it."""

    def __init__(self, violations: list[Violation], scenario: Scenario) -> None:
        run = "\n  ".join(f"{op.name} {op.args}" for op in scenario.op)
        super().__init__("\n".join(map(str, violations)) + f"\nafter\n  {run}")
        self.violations = violations
        self.scenario = scenario


class Conformance(RuleBasedStateMachine):
    """Rules for everything that a caller can ask of a target. Subclasses say of which, and under what."""

    opener: ClassVar[Opener]
    policy: ClassVar[Policy] = "write_back"
    components: ClassVar[tuple[Component, ...]] = ("full",)

    session: Session

    @initialize(
        page=st.integers(1, 2),
        device=st.integers(5, 9),
        host=st.integers(4, 9),
        window=st.integers(1, 4),
        warm=st.booleans(),
    )
    def start(self, page: int, device: int, host: int, window: int, warm: bool) -> None:
        """A fresh target with little memory; a warm one has been used, and has only host copies."""
        configuration = Configuration(
            self.policy, self.components, page_size=page, device_pages=device, host_pages=host,
            mamba_device_pages=3, mamba_host_pages=3, window=window,
        )  # fmt: skip
        self.session = Session(type(self).opener(), configuration, audit_every=4)
        if warm:
            for chosen in ([1, 2, 1], [1, 1]):
                self.ask("insert", tokens=self.tokens(chosen))
            self.ask("evict", component="full", pages=9)

    def ask(self, name: str, **args: Any) -> None:
        """Perform one operation and judge it."""
        if name in self.session.operations:
            self.session.perform(Operation(name, args))
            self.judge()

    def judge(self) -> None:
        """Raise what was found."""
        found = self.session.violations
        if found:
            configuration = self.session.configuration
            config = configuration.choices()
            run = self.session.log
            scenario = from_run("found", found[0].words, self.policy, self.components, run, config=config)
            raise NotConforming(found, scenario)

    def tokens(self, chosen: list[int]) -> list[int]:
        """Whole pages of two kinds, so that prefixes are shared."""
        return [10 * word + k for word in chosen for k in range(self.session.configuration.page_size)]

    # Requests
    @rule(chosen=words, swa=st.booleans(), mamba=st.booleans())
    def insert(self, chosen: list[int], swa: bool, mamba: bool) -> None:
        """A request has computed something."""
        self.ask("insert", tokens=self.tokens(chosen), aux={"swa": swa, "mamba": mamba})

    @precondition(there("inner"))
    @rule(chosen=words)
    def match(self, chosen: list[int]) -> None:
        """A request comes; nodes may be split."""
        self.ask("match", tokens=self.tokens(chosen))

    @precondition(there("device"))
    @rule(at=index)
    def lock(self, at: int) -> None:
        """A request locks its path."""
        self.ask("lock", node=Pick("device", at))

    @precondition(there("request"))
    @rule(name=st.sampled_from(["unlock", "forward", "release_window"]), at=index)
    def of_a_request(self, name: str, at: int) -> None:
        """A request goes on or ends."""
        self.ask(name, holder=Pick("request", at))

    # Copies
    @precondition(there("inner"))
    @rule(
        name=st.sampled_from(["backup", "storage_backup"]),
        among=st.sampled_from(["device", "backed", "written"]),
        at=index,
    )
    def begin_copy(self, name: str, among: str, at: int) -> None:
        """A copy away from the device."""
        self.ask(name, node=Pick(among, at))

    @precondition(there("host_only", "aux_host"))
    @rule(
        name=st.sampled_from(["load_back", "begin_load_back"]),
        among=st.sampled_from(["host_only", "aux_host", "inner"]),
        at=index,
    )
    def begin_load(self, name: str, among: str, at: int) -> None:
        """A copy to the device."""
        self.ask(name, node=Pick(among, at))

    @precondition(there("loading"))
    @rule(at=index)
    def commit(self, at: int) -> None:
        """The second half of a load-back."""
        self.ask("commit_load_back", holder=Pick("loading", at))

    @precondition(asked("storage_backup"))
    @rule(chosen=words)
    def prefetch(self, chosen: list[int]) -> None:
        """Storage may have more than the tree."""
        self.ask("prefetch", tokens=self.tokens(chosen))

    @precondition(there("prefetch"))
    @rule(at=index)
    def finish_prefetch(self, at: int) -> None:
        """What was read enters the tree."""
        self.ask("finish_prefetch", holder=Pick("prefetch", at))

    @precondition(there("flying"))
    @rule(choices=st.lists(st.integers(0, 15), min_size=1, max_size=4))
    def advance(self, choices: list[int]) -> None:
        """Copies advance, in any order."""
        for choice in choices:
            self.ask("step", choice=choice)

    @precondition(there("flying"))
    @rule(at=index)
    def wait(self, at: int) -> None:
        """A copy and those before it end."""
        self.ask("wait", holder=Pick("flying", at))

    @precondition(there("flying"))
    @rule()
    def poll(self) -> None:
        """Ends are taken notice of; what is not polled for a long time is a late ack."""
        self.ask("poll")

    # Room
    @precondition(there("inner"))
    @rule(name=st.sampled_from(["evict", "evict_host"]), at=index, count=pages)
    def evict(self, name: str, at: int, count: int) -> None:
        """Room is made."""
        self.ask(name, component=self.components[at % len(self.components)], pages=count)

    @precondition(there("duplicate"))
    @rule(count=pages)
    def reclaim(self, count: int) -> None:
        """Duplicates go."""
        self.ask("reclaim", pages=count)

    # Faults
    @precondition(asked("fail", 3))
    @rule(kind=st.sampled_from(FAULTS), how=st.sampled_from(["failed", "partial"]))
    def fail(self, kind: str, how: str) -> None:
        """The next copy or allocation of a kind fails."""
        self.ask("fail", kind=kind, fault=how)

    @precondition(there("operation"))
    @rule(at=index)
    def abort(self, at: int) -> None:
        """An operation is given up."""
        self.ask("abort", holder=Pick("operation", at))

    @precondition(asked("lock"))
    @rule(name=st.sampled_from(["unlock", "abort", "finish_prefetch", "commit_load_back"]))
    def stale(self, name: str) -> None:
        """A receipt that was never given out."""
        self.ask(name, holder=Pick("nobody"))

    @precondition(there("flying"))
    @rule()
    def reset(self) -> None:
        """Somebody wants the cache empty while copies are under way."""
        self.ask("reset")

    def teardown(self) -> None:
        """In the end nothing is held and nothing is out."""
        if hasattr(self, "session"):
            try:
                if not self.session.violations:
                    self.session.finish()
                    self.judge()
            finally:
                self.session.target.close()


def machine(target: str | Opener, policy: Policy, components: tuple[Component, ...]) -> type[Conformance]:
    """The state machine of one target, policy and component set."""
    name = f"Conformance_{policy}_{'_'.join(components)}"
    opener = staticmethod(lambda: open_target(target))
    return type(name, (Conformance,), {"opener": opener, "policy": policy, "components": components})


def run_suite(
    target: str | Opener,
    policy: Policy,
    components: tuple[Component, ...],
    *,
    examples: int = 30,
    steps: int = 40,
    chosen: settings | None = None,
) -> None:
    """Run the suite.

    Args:
        target: a name or a factory.
        examples, steps: how many runs, and how long at most.
        chosen: Hypothesis settings to use instead; the default ones are deterministic and keep no database.

    Raises:
        NotConforming: with the shortest run that Hypothesis found.
    """
    profile = chosen or settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine(target, policy, components), settings=profile)
