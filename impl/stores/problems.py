"""Errors of the system and of libraries, by the cache's names for them."""

from __future__ import annotations

import errno
import os

from ..errors import StorageError, StorageFull, StorageReadOnly, StorageUnavailable

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EACCES, errno.EROFS, errno.EPERM)


def told(problem: Exception, words: str) -> StorageError:
    """An error as one of ours: `words` say what could not be done."""
    text = f"{words}: {problem}"
    if _is_one_of(problem, FULL):
        return StorageFull("storage", text)
    if _is_one_of(problem, READ_ONLY):
        return StorageReadOnly("storage", text)
    return StorageUnavailable("storage", text)


def _is_one_of(problem: Exception, numbers: tuple[int, ...]) -> bool:
    # LMDB's errors carry the system's number in their text alone.
    return getattr(problem, "errno", None) in numbers or any(os.strerror(n) in str(problem) for n in numbers)
