"""Known deviations of targets, as data with the reason: each with the signs that it is known by, and a run that shows
it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache

import msgspec

from .. import specs
from ..model.vocabulary import Policy, ownership_policy
from .causes import CAUSES
from .dialects.dialect import release_number
from .errors import ConformanceError
from .scenario import Op
from .violation import Violation


class Sign(msgspec.Struct, forbid_unknown_fields=True):
    """What a violation looks like: its kind, a pattern that is its rule, one that is in its words or difference."""

    kind: str
    rule: str
    words: str = ""


class Deviation(msgspec.Struct, forbid_unknown_fields=True):
    """A file of specs/deviations.

    Attributes:
        words: what the target does.
        reason: why it is known and not mended.
        finding: its page in docs/findings.
        cause: what must have happened before (see `causes.CAUSES`).
        target: the kind of target: "sglang".
        since, until: first and last release that has it.
        cores, policies, components: where it occurs; write_through stands for its selective kind too.
        sign: what it looks like, the first the one that its run shows.
        config, op: the shortest run that shows it, under the first policy and component set.
    """

    id: str
    words: str
    reason: str
    finding: str
    cause: str
    target: str
    policies: list[Policy]
    components: list[str]
    sign: list[Sign]
    op: list[Op]
    cores: list[str] = msgspec.field(default_factory=lambda: ["python", "rust"])
    since: str = ""
    until: str = ""
    config: dict[str, int | bool] = {}

    def looks_like(self, violation: Violation) -> bool:
        """Whether a violation has a sign of this deviation. That it is one takes the cause too (see `attribution`)."""
        said = f"{violation.words} {violation.field}: expected {violation.expected!r}, observed {violation.observed!r}"
        return any(
            sign.kind == violation.kind and re.fullmatch(sign.rule, violation.rule) and re.search(sign.words, said)
            for sign in self.sign
        )

    def applies(self, name: str, policy: Policy, components: Sequence[str]) -> bool:
        """Whether the target of that name has it under a policy and component set."""
        kind, _, rest = name.partition(":")
        version, _, core = rest.partition(":")
        if kind != self.target or (core.partition("+")[0] or "python") not in self.cores:
            return False
        number = release_number(version)
        return (
            (not self.since or release_number(self.since) <= number)
            and (not self.until or number <= release_number(self.until))
            and ownership_policy(policy) in self.policies
            and "+".join(components) in self.components
        )


@cache
def shipped() -> tuple[Deviation, ...]:
    """Every deviation that comes with the package, by name.

    Raises:
        ConformanceError: names the file and what is wrong with it.
    """
    found = []
    for file in sorted(
        (f for f in (specs.files() / "deviations").iterdir() if f.name.endswith(".toml")), key=lambda f: f.name
    ):
        try:
            found.append(msgspec.convert(tomllib.loads(file.read_text("utf-8")), Deviation))
            if found[-1].cause not in CAUSES:
                raise ConformanceError(f"{file.name}: no cause {found[-1].cause!r} ({', '.join(CAUSES)})")
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise ConformanceError(f"{file.name}: {error}") from None
    return tuple(found)


def deviations_of(name: str, policy: Policy, components: Sequence[str]) -> tuple[Deviation, ...]:
    """The known deviations of a target under a policy and component set."""
    return tuple(each for each in shipped() if each.applies(name, policy, components))
