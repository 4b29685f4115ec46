"""Every release of SGLang that is known, core by core, under every policy and component set: one table.

python -m pinproof.conformance.matrix --steps 1000 > docs/findings/matrix.md

With --interface, what of a release's interface such runs have called, and how often.

python -m pinproof.conformance.matrix --interface 0.5.23 --steps 1000 > docs/findings/interface.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..model.vocabulary import COMPONENT_SETS, POLICIES, Component, Policy
from .campaign import campaign
from .errors import ConformanceError
from .registry import open_target
from .sglang.environment import RELEASES, EnvironmentProblem, has_rust

HEAD = """# Every release, core, policy and component set

Written by `python -m pinproof.conformance.matrix --steps {steps}`: random operations from seed {seed}, every event
checked. *deviates*: nothing was found but the known deviations that the row names; *violated*: there was more. Steps a
second are by the clock of the machine that wrote this, everything included.

| release | core | policy | components | verdict | steps | steps/s | defects |
|---|---|---|---|---|---|---|---|"""


def rows(steps: int, seed: int) -> Iterator[str]:
    """The rows of the table, one after the other."""
    for version in RELEASES:
        for core in ("python", "rust"):
            if core == "rust" and not has_rust(version):
                yield f"| {version} | rust | | | could not run: its wheel has no Rust core | | | |"
                continue
            yield from _of_core(version, core, steps, seed)


def _of_core(version: str, core: str, steps: int, seed: int) -> Iterator[str]:
    try:
        target = open_target(f"sglang:{version}:{core}")
    except (ConformanceError, EnvironmentProblem) as missing:
        yield f"| {version} | {core} | | | could not run: {missing} | | | |"
        return
    try:
        for policy in POLICIES:
            for components in COMPONENT_SETS:
                found = campaign(target, policy, components, steps, seed, shorten=False)
                new = sorted({v.rule for v in found.violations})
                verdict = "violated" if new else "deviates" if found.known else "holds"
                rate = found.steps / max(found.seconds, 1e-9)
                yield _row(version, core, policy, components, verdict, found.steps, rate, [
                    *(f"[{name}]({name}.md)" for name in sorted(found.known)), *new,
                ])  # fmt: skip
    finally:
        target.close()


def _row(
    version: str, core: str, policy: Policy, components: tuple[Component, ...], verdict: str, steps: int, rate: float,
    defects: list[str],
) -> str:  # fmt: skip
    return (
        f"| {version} | {core} | {policy} | {'+'.join(components)} | {verdict} | {steps} | {rate:.0f} "
        f"| {', '.join(defects)} |"
    )


INTERFACE = """# What of the interface was called

Written by `python -m pinproof.conformance.matrix --interface {version} --steps {steps}`: random operations from seed
{seed}, {steps} under each policy and component set. What the core asks its cache to do is called *action*.

| of the interface of {version} | python | rust |
|---|---|---|"""


def interface(version: str, steps: int, seed: int) -> Iterator[str]:
    """A row for each method and action of a release's interface, the most often met first; then those never met."""
    met: list[dict[str, int]] = []
    for core in ("python", "rust"):
        if core == "rust" and not has_rust(version):
            met.append({})
            continue
        target = open_target(f"sglang:{version}:{core}")
        try:
            for policy in POLICIES:
                for components in COMPONENT_SETS:
                    campaign(target, policy, components, steps, seed, shorten=False)
            met.append(target.op("interface").result)
        finally:
            target.close()
    names = sorted({*met[0], *met[1]}, key=lambda name: (-sum(each.get(name, 0) for each in met), name))
    for name in names:
        counts = [each.get(name, 0) for each in met]
        yield f"| `{name}` | " + " | ".join(f"{count:,}" if count else "never" for count in counts) + " |"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description="The matrix of releases.")
    options.add_argument("--steps", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--interface", metavar="RELEASE")
    chosen = options.parse_args()
    if chosen.interface:
        print(INTERFACE.format(version=chosen.interface, steps=chosen.steps, seed=chosen.seed))
        for row in interface(chosen.interface, chosen.steps, chosen.seed):
            print(row, flush=True)
        return
    print(HEAD.format(steps=chosen.steps, seed=chosen.seed))
    for row in rows(chosen.steps, chosen.seed):
        print(row, flush=True)


if __name__ == "__main__":
    main()
