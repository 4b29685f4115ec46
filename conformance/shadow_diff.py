"""Traces of calls, as a shadow records them: where two part, or where one breaks a rule of ownership.

Two cores name the same node, and the same slot, differently, and every run hashes keys under a key of its own. So
before two calls are compared, nodes and keys are numbered by their first appearance, and slots by the turn in which
they were given to the tree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from .divergence import DiffResult, Divergence, FieldDifference
from .errors import BadTrace
from .shadow.ledger import Ledger
from .shadow.reporting import FORMAT, expanded
from .shadow.slots import SWA_BEHIND

Call = dict[str, Any]
Progress = Callable[[int], None]

ROWS = ("reads", "gives", "writes", "frees")
_WINDOW = 512
"""Calls before the one in question among which its history is looked for."""


class CallReader:
    """Reads a trace of calls; iterating gives them, once, with units in full.

    Attributes:
        header: the first line.
        truncated: the last line was cut off; known once all is read.
        line: number of the line read last.

    Raises:
        BadTrace: a line is no call, `seq` has a gap, or the header is of another format.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.truncated, self.line = path, False, 1
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            raise BadTrace(f"{path} cannot be opened: {error.strerror}", 0) from None
        self.header = _decoded(self._file.readline(), 1)
        if self.header.get("trace") != FORMAT:
            self._file.close()
            raise BadTrace(f"{path} is no trace of calls ({FORMAT}), and only such can be compared with one", 1)

    def __iter__(self) -> Iterator[Call]:
        expected = 0
        with self._file as file:
            for text in file:
                self.line += 1
                try:
                    call = _decoded(text, self.line)
                    for field in ROWS:
                        if field in call:
                            call[field] = [[tier, name, expanded(told)] for tier, name, told in call[field]]
                    for row in call.get("rebuilds", ()):
                        row[1] = expanded(row[1])
                    if "pairs" in call:
                        call["pairs"] = [[expanded(full), expanded(swa)] for full, swa in call["pairs"]]
                    seq, _ = call["seq"], call["call"]
                except BadTrace:
                    if not text.endswith(b"\n"):
                        self.truncated = True
                        return
                    raise
                except (KeyError, TypeError, ValueError) as error:
                    raise BadTrace(f"no call: {error!r}", self.line) from None
                if seq != expected:
                    raise BadTrace(f"seq is {seq}, and {expected} would be next", self.line)
                expected += 1
                yield call

    def close(self) -> None:
        """Stop reading."""
        self._file.close()


def _decoded(text: bytes, line: int) -> Call:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadTrace(str(error), line) from None
    if not isinstance(found, dict):
        raise BadTrace("not a JSON object", line)
    return found


def is_of_calls(path: Path) -> bool:
    """Whether a file says that it is a trace of calls."""
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 16)
        found = msgspec.json.decode(first)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(found, dict) and str(found.get("trace", "")).startswith("pinproof-shadow/")


def diff_calls(a: Path, b: Path | None, progress: Progress | None = None) -> DiffResult:
    """Compare a trace of calls with another one, or with the rules of the ledger if there is no `b`.

    Raises:
        BadTrace: a trace cannot be read, or only one of the two is a trace of calls.
    """
    with ExitStack() as open_files:
        readers = [open_files.enter_context(closing(CallReader(path))) for path in (a, b) if path is not None]
        if b is None:
            found, calls = _against_rules(readers[0], progress)
        else:
            found, calls = _against_calls(readers[0], readers[1], progress)
    truncated = tuple(str(reader.path) for reader in readers if reader.truncated)
    return DiffResult("holds" if found is None else "violated", calls, found, truncated)


def _against_rules(reader: CallReader, progress: Progress | None) -> tuple[Divergence | None, int]:
    ledger, history = Ledger(), History()
    calls = 0
    for call in reader:
        calls += 1
        found = ledger.before(call)
        if "raised" not in call:
            found = [*found, *ledger.after(call)]
        if found:
            first, *more = found
            words = first.words + "".join(f"; {breach.words} [{breach.property}]" for breach in more)
            recent = history.about(call)
            return Divergence(call["seq"], reader.line, told(call), None, (), first.property, words, (), recent), calls
        history.add(call)
        if progress is not None and not calls % 5000:
            progress(calls)
    return None, calls


def _against_calls(one: CallReader, other: CallReader, progress: Progress | None) -> tuple[Divergence | None, int]:
    heads = tuple(
        FieldDifference(None, field, one.header.get(field), other.header.get(field))
        for field in ("components", "page_size")
        if one.header.get(field) != other.header.get(field)
    )
    if heads:
        words = "the traces were recorded under different settings"
        return Divergence(-1, 1, None, None, heads, "header", words), 0
    mine, theirs, history = Names(), Names(), History()
    calls = 0
    for left, right in zip_longest(one, other):
        calls += left is not None
        if left is None or right is None:
            there = FieldDifference(None, "call", left and "there", right and "there")
            fields: tuple[FieldDifference, ...] = (there,)
        else:
            a, b = mine.of(left), theirs.of(right)
            fields = tuple(
                FieldDifference(None, field, a.get(field), b.get(field))
                for field in dict.fromkeys((*a, *b))
                if a.get(field) != b.get(field)
            )
        if fields:
            side = left if left is not None else right
            assert side is not None
            shown = [None if call is None else told(call) for call in (left, right)]
            return Divergence(
                side["seq"], one.line, shown[0], shown[1], fields, recent=history.about(left or {})
            ), calls
        assert left is not None
        history.add(left)
        if progress is not None and not calls % 5000:
            progress(calls)
    return None, calls


def told(call: Call) -> str:
    """A call on one line: `7 dec_lock_ref(node=3)`."""
    fields = ("node", "nodes", "ack", "component", "field", "value", "count", "tokens")
    args = ", ".join(f"{name}={call[name]}" for name in fields if name in call)
    raised = f" raised {call['raised']}" if "raised" in call else ""
    return f"{call['seq']} {call['call']}({args}){raised}"


class Names:
    """Renames what one trace calls its own way, in the order of appearance."""

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {}
        self._keys: dict[str, int] = {}
        self._turns: dict[tuple[str, str], dict[int, int]] = {}
        self._given = 0

    def of(self, call: Call) -> Call:
        """The call under those names, without what says nothing (its number, breaches, the kind of an exception)."""
        out: Call = {"call": call["call"]}
        for field, value in call.items():
            if field in ("node", "ack"):
                out[field] = self._node(value)
            elif field in ("nodes", "backs"):
                out[field] = [self._node(node) for node in value]
            elif field == "splits":
                out[field] = [[self._node(node) for node in row] for row in value]
            elif field in ("found", "done"):
                out[field] = {name: self._node(v) if _is_node(name) else v for name, v in value.items()}
            elif field == "key":
                out[field] = self._keys.setdefault(value, len(self._keys))
            elif field == "raised":
                out[field] = True
            elif field not in (*ROWS, "seq", "call", "breaches", "pairs", "rebuilds"):
                out[field] = value
        for field in ROWS:
            if field in call:
                out[field] = self._rows(call[field], field == "gives")
        if "rebuilds" in call:
            out["rebuilds"] = [[self._node(n), self._slots("device", "full", slots)] for n, slots in call["rebuilds"]]
        if "pairs" in call:
            out["pairs"] = sum(len(full or ()) for full, _ in call["pairs"])
        for tier, component, units in call.get("frees", ()):
            turns = self._turns.get((tier, component), {})
            for unit in units or ():
                turns.pop(unit, None)
        return out

    def _node(self, node: int) -> int:
        return self._nodes.setdefault(node, len(self._nodes))

    def _rows(self, rows: list[Any], new: bool) -> dict[str, Any]:
        found: dict[str, list[Any]] = {}
        for tier, component, units in rows:
            if units is None:
                found.setdefault(f"{tier} {component}", []).append("unread")
                continue
            if new:
                turns = self._turns.setdefault((tier, component), {})
                for unit in units:
                    self._given += 1
                    turns[unit] = self._given
            found.setdefault(f"{tier} {component}", []).extend(self._slots(tier, component, units))
        return {pool: sorted(slots, key=str) for pool, slots in found.items()}

    def _slots(self, tier: str, component: str, units: list[int] | None) -> list[Any]:
        turns = self._turns.get((tier, "full" if component == SWA_BEHIND else component), {})
        # A slot that the tree was never given has no number of its own.
        return sorted(turns.get(unit, 0) for unit in units or ())


def _is_node(name: str) -> bool:
    return name == "best" or name.endswith("node_id")


class History:
    """The last calls, to be asked for those that touched the same nodes and slots."""

    def __init__(self) -> None:
        self._last: deque[tuple[set[Any], str]] = deque(maxlen=_WINDOW)

    def add(self, call: Call) -> None:
        """One more call."""
        self._last.append((_touched(call), told(call)))

    def about(self, call: Call) -> tuple[str, ...]:
        """The last eight that touched what this call touches, the oldest first."""
        wanted = _touched(call)
        return tuple([words for touched, words in self._last if touched & wanted][-8:])


def _touched(call: Call) -> set[Any]:
    found: set[Any] = set(call.get("nodes", ()))
    found.update(call[field] for field in ("node", "ack") if field in call)
    for part in ("found", "done"):
        found.update(value for name, value in call.get(part, {}).items() if _is_node(name))
    for field in ROWS:
        for tier, component, units in call.get(field, ()):
            pool = "full" if component == SWA_BEHIND else component
            found.update((tier, pool, unit) for unit in units or ())
    return found
