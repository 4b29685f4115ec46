"""Traces on disk: a header line, then one event a line. Written and read as a stream, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from .errors import BadTrace
from .events import Event, Header

_LINE = 1 << 24
"""Bytes; a longer line is no event."""


class TraceWriter:
    """Writes a trace. A context manager; every event is on its own line, so a crash loses at most the last one."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        self.events = 0
        self._encode = msgspec.json.Encoder().encode
        self._file: BinaryIO = path.open("wb", buffering=1 << 16)
        self._file.write(self._encode(header) + b"\n")

    def write(self, event: Event) -> None:
        """Add one event."""
        self._file.write(self._encode(event) + b"\n")
        self.events += 1

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """No more events."""
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TraceReader:
    """Reads a trace; iterating gives its events, once.

    Attributes:
        header: the first line.
        truncated: the last line was cut off, since its writer did not get to finish it; known once all is read.
        line: number of the line read last.

    Raises:
        BadTrace: a line is no event of this format, `seq` has a gap, or there is no header.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.truncated = False
        self.line = 1
        try:
            self._file: BinaryIO = path.open("rb", buffering=1 << 18)
        except OSError as error:
            raise BadTrace(f"{path} cannot be opened: {error.strerror}", 0) from None
        first = self._file.readline(_LINE)
        if not first.strip():
            self._file.close()
            raise BadTrace("there is no header", 1)
        try:
            self.header = msgspec.json.decode(first, type=Header)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._file.close()
            if b'"pinproof-shadow/' in first:
                raise BadTrace("a trace of calls that a shadow recorded: `pinproof diff` reads it", 1) from None
            raise BadTrace(f"no header of a trace: {error}", 1) from None

    def __iter__(self) -> Iterator[Event]:
        decode = msgspec.json.Decoder(Event).decode
        expected = 0
        with self._file as file:
            for text in file:
                self.line += 1
                try:
                    event = decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    if not text.endswith(b"\n"):
                        self.truncated = True
                        return
                    if not text.strip():
                        continue
                    raise BadTrace(str(error), self.line) from None
                if event.seq != expected:
                    raise BadTrace(f"seq is {event.seq}, and {expected} would be next", self.line)
                expected += 1
                yield event

    def close(self) -> None:
        """Stop reading."""
        self._file.close()
