"""Memory of the process that measures. Standard library only."""

from __future__ import annotations

import ctypes
from pathlib import Path

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep() -> None:
    """Do not give freed memory back to the system, so that later rounds find it mapped, as a server that has been up
    for a while does. Without it, page faults are a good part of all times on virtual machines, on every side.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option in (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD):
        mallopt(option, 1 << 30)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096
