"""A pytest plugin that checks a target: `pytest --pinproof-target impl` adds conformance tests to any project's run.

Without `--pinproof-target` it adds nothing but the fixtures, which a project's own tests may use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..model.vocabulary import Component, Policy
    from .targets.base import Target


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("pinproof", "conformance to the ownership protocol of tiered KV caches")
    group.addoption(
        "--pinproof-target", default=None, metavar="TARGET", help="Check this target: impl, sglang:VERSION, …"
    )
    group.addoption("--pinproof-policy", default="all", help="A write policy, or all.")
    group.addoption("--pinproof-components", default="all", help="A component set such as full+swa, or all.")
    group.addoption("--pinproof-steps", type=int, default=1000, help="Operations for each policy and component set.")
    group.addoption("--pinproof-seed", type=int, default=0, help="The only source of randomness.")


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add one test for each setting, if a target was named."""
    target = config.getoption("--pinproof-target")
    if target is None:
        return
    for policy, components in settings(config):
        name = f"pinproof[{target}-{policy}-{'+'.join(components)}]"
        items.append(ConformanceItem.from_parent(session, name=name, setting=(target, policy, components)))


def settings(config: pytest.Config) -> Iterator[tuple[Policy, tuple[Component, ...]]]:
    """The policies and component sets that the options ask for.

    Raises:
        pytest.UsageError: there is no such policy or component set.
    """
    from ..model.vocabulary import COMPONENT_SETS, POLICIES

    policy, joined = config.getoption("--pinproof-policy"), config.getoption("--pinproof-components")
    policies = [p for p in POLICIES if policy in (p, "all")]
    sets = [c for c in COMPONENT_SETS if joined in ("+".join(c), "all")]
    if not policies or not sets:
        raise pytest.UsageError(f"pinproof: no policy {policy!r} or no component set {joined!r}")
    for chosen in policies:
        for components in sets:
            yield chosen, components


class ConformanceFailure(Exception):
    """A target does not conform; the message is the report."""


class ConformanceItem(pytest.Item):
    """One conformance run as a test."""

    def __init__(self, *, setting: tuple[str, Policy, tuple[Component, ...]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._setting = setting

    def runtest(self) -> None:
        """Drive the target; fail with the first violation and the shortest run that shows it."""
        from .conform import conform
        from .errors import TargetUnavailable

        target, policy, components = self._setting
        steps, seed = self.config.getoption("--pinproof-steps"), self.config.getoption("--pinproof-seed")
        try:
            result = conform(target, policy, components, steps, seed)
        except TargetUnavailable as reason:
            pytest.skip(str(reason))
        self.user_properties.append(("steps_per_second", round(result.steps_per_second)))
        if result.verdict != "holds":
            lines = [str(v) for v in result.violations[:5]]
            if result.scenario is not None:
                lines += ["shortest run:", *(f"  {op.name} {op.args}" for op in result.scenario.op)]
                lines += [f"  {step.action} {step.args}" for step in result.scenario.step]
            raise ConformanceFailure(
                "\n".join([f"{result.target} does not conform", *lines, f"again: {result.reproduce}"])
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report alone, without our traceback."""
        if isinstance(excinfo.value, ConformanceFailure):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where it comes from."""
        return self.path, None, self.name


@pytest.fixture
def pinproof_target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """The target that `--pinproof-target` names (impl unless given), not configured; closed afterwards."""
    from .registry import open_target

    target = open_target(request.config.getoption("--pinproof-target") or "impl")
    yield target
    target.close()


@pytest.fixture
def pinproof_conform(request: pytest.FixtureRequest) -> Any:
    """`conform` with the target, steps and seed of the options; everything can be given in the call."""
    from .conform import conform

    def run(**choices: Any) -> Any:
        option = request.config.getoption
        given = {"target": option("--pinproof-target") or "impl", "steps": option("--pinproof-steps")}
        return conform(**(given | {"seed": option("--pinproof-seed")} | choices))

    return run
