"""Work spread over processes: one a core, started fresh, results in the order in which they come."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what was done)."""

Task = TypeVar("Task")
Answer = TypeVar("Answer")


def cores() -> int:
    """How many processes this machine can run at once."""
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def spread(
    work: Callable[[Task], Answer], tasks: Sequence[Task], jobs: int | None, progress: Progress | None
) -> Iterator[Answer]:
    """`work` of each task, in no particular order.

    Args:
        work: a function of a module, so that another process can find it.
        tasks: plain data; the longest first, so that no process is left alone with it.
        jobs: number of processes, as many as there are cores if None; with 1 everything happens in this one.
        progress: told after each task; what was done is `str(task)`.
    """
    told = progress or (lambda done, total, what: None)
    count = min(jobs or cores(), len(tasks))
    if count <= 1:
        for done, task in enumerate(tasks, 1):
            yield work(task)
            told(done, len(tasks), str(task))
        return
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(work, task): task for task in tasks}
        for done, future in enumerate(as_completed(futures), 1):
            yield future.result()
            told(done, len(tasks), str(futures[future]))
