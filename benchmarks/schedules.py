"""Many short random schedules of the cache, every one from an empty cache to a drained one.

    python benchmarks/schedules.py [--policy P] [--schedules N] [--steps N] [--seed N]

All components, the storage tier, failing copies and the adversarial engine are on; each event is held to the protocol,
arrived bytes are compared, accesses that nothing orders are errors, and nothing may be out when it is over. Short lives
meet more beginnings and ends than one long run of as many steps. One in four is about what storage alone has kept. Exit
code 1 if anything was found.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from pinproof.conformance.conform import conform
from pinproof.model.vocabulary import COMPONENT_SETS, POLICIES


def main() -> int:
    """Run them, policy by policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", choices=[*POLICIES, "all"], default="all")
    parser.add_argument("--schedules", type=int, default=10_000, help="of each policy")
    parser.add_argument("--steps", type=int, default=40, help="operations of each, before it is drained")
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    asked = parser.parse_args()
    failed = False
    for policy in POLICIES:
        if asked.policy not in (policy, "all"):
            continue
        steps, wrong, done = 0, 0, Counter[str]()
        for seed in range(asked.seed, asked.seed + asked.schedules):
            workload = "storage" if seed % 4 == 3 else None
            found = conform("impl", policy, COMPONENT_SETS[-1], asked.steps, seed, workload, shortest=False)
            steps += found.steps
            done.update(found.coverage)
            if found.violations:
                wrong += 1
                print(f"{policy} seed {seed}: {found.violations[0]}", flush=True)
        print(f"{policy}: {asked.schedules:,} schedules, {steps:,} steps, {wrong} wrong")
        failed = failed or wrong > 0
        print("  " + ", ".join(f"{count:,} {name}" for name, count in sorted(done.items())))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
