"""The shadow itself: a tree core that forwards every call to another one. Standard library only.

Its class is derived from the interface of the release at hand: every method, property and attribute that
`UnifiedTreeCoreInterface` has is forwarded as it is, and whatever else the core has (its components reach into the
Python core) is looked up in the core. Only outermost calls are told: a Python component calls its core back.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from .calls import REMEMBERED, TOLD, tell_after, tell_before
from .ledger import Ledger
from .reporting import Reporter, Settings, ShadowViolation
from .slots import Breach
from .telling import Teller

log = logging.getLogger("pinproof.shadow")

MEMBER = "_pinproof_shadow"
"""The one attribute of a shadow that is its own."""


class Shadow:
    """State behind a shadowed core.

    Attributes:
        inner: the core that does the work.
        ledger, reporter: what is known, and what is done about it.
        calls: outermost calls so far, told or not.
        broken: the shadow itself failed and only forwards from now on.
    """

    def __init__(self, inner: Any, components: Iterable[str], settings: Settings) -> None:
        self.inner, self.settings = inner, settings
        names = tuple(components)
        self.teller = Teller(inner.page_size, names, bool(getattr(inner, "is_eagle", False)), settings.read_gpu)
        self.ledger = Ledger()
        self.core = type(inner).__name__
        header = {"core": self.core, "components": list(names), "page_size": inner.page_size}
        self.reporter = Reporter(settings, header)
        self.recording = bool(settings.trace)
        self.teller.keys = self.recording
        self.calls = 0
        self.seq = 0
        self.depth = 0
        self.broken = False

    def outermost(self, name: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is told: check, forward, check, record."""
        given = dict(zip(names, args, strict=False))
        if kwargs:
            given.update(kwargs)
        record: dict[str, Any] = {"seq": self.seq, "call": name}
        self.seq += 1
        breaches = self._safely(self._before, record, given)
        if breaches and self.settings.mode == "raise":
            self._settle(record, breaches)
            raise ShadowViolation(record, breaches)
        self.depth += 1
        try:
            result = getattr(self.inner, name)(*args, **kwargs)
        except BaseException as error:
            record["raised"] = type(error).__name__
            record.pop("_before", None)
            self._safely(self._settle, record, breaches)
            raise
        finally:
            self.depth -= 1
        breaches = self._safely(self._after, record, given, result, breaches)
        if breaches and self.settings.mode == "raise":
            raise ShadowViolation(record, breaches, result)
        return result

    def question(self, name: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call whose answer a later one relies on."""
        result = getattr(self.inner, name)(*args, **kwargs)
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        self._safely(self._asked, name, given, result)
        return result

    def assigned(self, name: str, value: object) -> None:
        """An attribute of the interface was set: policy and tiers are part of the story."""
        if self.depth == 0 and isinstance(value, bool | int):
            record = {"seq": self.seq, "call": "set", "field": name, "value": value}
            self.seq += 1
            self._safely(self._settle, record, [])

    def _before(self, record: dict[str, Any], given: dict[str, Any]) -> list[Breach]:
        tell_before(self.teller, record, given)
        return self.ledger.before(record)

    def _after(
        self, record: dict[str, Any], given: dict[str, Any], result: Any, breaches: list[Breach]
    ) -> list[Breach]:
        tell_after(self.teller, record, given, result)
        breaches += self.ledger.after(record)
        if breaches or self.recording:
            self._settle(record, breaches)
        return breaches

    def _asked(self, name: str, given: dict[str, Any], result: Any) -> list[Breach]:
        self.teller.asked(name, given, result)
        return []

    def _settle(self, record: dict[str, Any], breaches: list[Breach]) -> list[Breach]:
        if breaches:
            record["breaches"] = [list(breach) for breach in breaches]
            self.reporter.found(record, breaches)
        self.reporter.record(record)
        return []

    def _safely(self, step: Callable[..., list[Breach]], *args: Any) -> list[Breach]:
        """A mistake of the shadow's own must not reach the server: it says so once and steps aside."""
        if self.broken:
            return []
        if self.settings.mode == "raise":
            return step(*args)
        try:
            return step(*args)
        except Exception:
            self.broken = True
            log.exception("the shadow failed and only forwards from now on")
            return []


def shadow_of(core: Any) -> Shadow:
    """The state behind a core that `wrap` returned."""
    found: Shadow = object.__getattribute__(core, MEMBER)
    return found


def forwarded(interface: type) -> dict[str, str]:
    """What a shadow of `interface` forwards: name -> ``method``, ``property`` or ``attribute``."""
    found: dict[str, str] = {}
    for base in reversed(interface.__mro__[:-1]):
        for name in inspect.get_annotations(base):
            found.setdefault(name, "attribute")
        for name, member in base.__dict__.items():
            if name.startswith("__") or name.startswith("_abc_"):
                continue
            if isinstance(member, property):
                found[name] = "property"
            elif inspect.isfunction(member):
                found[name] = "method"
            elif not isinstance(member, staticmethod | classmethod):
                found[name] = "attribute"
    return found


@functools.cache
def shadow_class(interface: type) -> type:
    """A class with every member of `interface`, each forwarded to the core behind it."""
    body: dict[str, Any] = {
        "__init__": _init,
        "__getattr__": _getattr,
        "__setattr__": _setattr,
        "__delattr__": _delattr,
        # SGLang 0.5.20 asks `isinstance(tree_core, UnifiedTreeCore)`: the answer is the core's.
        "__class__": property(_class),
        "__doc__": "A tree core behind which another one does the work.",
        "__module__": __name__,
    }
    for name, kind in forwarded(interface).items():
        if kind == "method":
            body[name] = _method(name, inspect.getattr_static(interface, name))
        else:
            body[name] = property(functools.partial(_read, name), functools.partial(_write, name))
    return type("Shadowed" + interface.__name__, (interface,), body)


def _init(self: Any, shadow: Shadow) -> None:
    object.__setattr__(self, MEMBER, shadow)


def _getattr(self: Any, name: str) -> Any:
    return getattr(object.__getattribute__(self, MEMBER).inner, name)


def _setattr(self: Any, name: str, value: Any) -> None:
    _write(name, self, value)


def _delattr(self: Any, name: str) -> None:
    delattr(object.__getattribute__(self, MEMBER).inner, name)


def _class(self: Any) -> type:
    return type(object.__getattribute__(self, MEMBER).inner)


def _read(name: str, self: Any) -> Any:
    return getattr(object.__getattribute__(self, MEMBER).inner, name)


def _write(name: str, self: Any, value: Any) -> None:
    shadow = object.__getattribute__(self, MEMBER)
    setattr(shadow.inner, name, value)
    if inspect.getattr_static(type(self), name, None) is not None:
        shadow.assigned(name, value)


def _method(name: str, member: Callable[..., Any]) -> Callable[..., Any]:
    names = tuple(inspect.signature(member).parameters)[1:]
    told, remembered = name in TOLD, name in REMEMBERED

    @functools.wraps(member)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        shadow: Shadow = object.__getattribute__(self, MEMBER)
        if shadow.depth or shadow.broken:
            return getattr(shadow.inner, name)(*args, **kwargs)
        shadow.calls += 1
        if told:
            return shadow.outermost(name, names, args, kwargs)
        if remembered:
            return shadow.question(name, names, args, kwargs)
        shadow.teller.forget()
        return getattr(shadow.inner, name)(*args, **kwargs)

    # An abstract method that is forwarded is not abstract any more.
    forward.__dict__.pop("__isabstractmethod__", None)
    return forward


def wrap(inner: Any, interface: type, components: Iterable[str], settings: Settings | None = None) -> Any:
    """A core that forwards everything to `inner`, records it and checks it.

    Args:
        inner: the core that does the work.
        interface: the release's `UnifiedTreeCoreInterface`.
        components: names of its components: ``full``, ``swa``, ``mamba``; others are not followed.
        settings: default: `Settings.from_environment`.
    """
    chosen = Settings.from_environment() if settings is None else settings
    return shadow_class(interface)(Shadow(inner, components, chosen))
