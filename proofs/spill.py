"""Arrays on disk, for what does not fit into the memory budget."""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np


class ExplorationError(Exception):
    """An exploration could not be done as asked, for a reason that lies outside the protocol."""


class DiskFull(ExplorationError):
    """There is no room left for what does not fit into memory."""

    def __init__(self, folder: Path, wanted: int) -> None:
        free = shutil.disk_usage(folder).free if folder.exists() else 0
        super().__init__(
            f"no room in {folder} for {wanted:,} more bytes ({free:,} free): "
            "give a larger memory budget, a smaller universe, or another folder by TMPDIR or the checkpoint's path"
        )
        self.folder = folder


@dataclass(frozen=True, slots=True)
class Stored:
    """`rows` arrays of `columns` int64 each, in one file, one after the other."""

    path: Path
    rows: int
    columns: int

    def read(self, first: int = 0, last: int | None = None) -> np.ndarray[Any, Any]:
        """Columns `first..last-1` of all rows: [rows, last - first]."""
        last = self.columns if last is None else last
        found = np.empty((self.rows, last - first), np.int64)
        with self.path.open("rb") as file:
            for row in range(self.rows):
                file.seek(8 * (row * self.columns + first))
                found[row] = np.fromfile(file, np.int64, last - first)
        return found


class Disk:
    """A folder for arrays; a temporary one, made when first needed and removed by `close`, unless a folder is
    given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._temporary = folder is None
        self._written = 0

    def write(self, rows: Sequence[np.ndarray[Any, Any]], name: str | None = None) -> Stored:
        """Write arrays of equal length.

        Raises:
            DiskFull: there is no room.
        """
        return self.write_pieces(([row] for row in rows), len(rows), len(rows[0]), name)

    def write_pieces(
        self, rows: Iterable[Iterable[np.ndarray[Any, Any]]], count: int, columns: int, name: str | None = None
    ) -> Stored:
        """Write `count` arrays of `columns` int64 each, that come in pieces: nothing has to be there as a whole.

        Raises:
            DiskFull: there is no room.
        """
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="pinproof-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / (name or f"{self._written}.i64")
        self._written += 1
        try:
            with path.open("wb") as file:
                for pieces in rows:
                    for piece in pieces:
                        _put(piece, file)
        except OSError as error:
            path.unlink(missing_ok=True)
            # numpy reports a short write without the errno.
            if error.errno in (errno.ENOSPC, errno.EDQUOT, None):
                raise DiskFull(self.folder, 8 * count * columns) from error
            raise
        return Stored(path, count, columns)

    def remove(self, stored: Stored) -> None:
        """Forget a file that is not needed any more."""
        stored.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the temporary folder."""
        if self._temporary and self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None


def _put(row: np.ndarray[Any, Any], file: BinaryIO) -> None:
    np.ascontiguousarray(row).tofile(file)
