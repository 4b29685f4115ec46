"""The two sides of a comparison: ours in this process, SGLang's cores in a process of their environment."""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from types import TracebackType
from typing import Any

import _memory
import numpy
import torch
from pinproof.conformance.sglang.environment import EnvironmentProblem, find

RELEASE = "0.5.23"
ANSWER = "ANSWER "
Row = dict[str, Any]


class Cores:
    """SGLang's cores of one release; `why_not` says why there are none."""

    def __init__(self) -> None:
        _memory.keep()
        self.why_not: str | None = None
        self._worker: subprocess.Popen[str] | None = None
        try:
            environment = find(RELEASE)
        except EnvironmentProblem as problem:
            self.why_not = str(problem)
            return
        script = Path(__file__).with_name("_sglang_cores.py")
        self._worker = subprocess.Popen(
            [str(environment.python), "-u", str(script), "--source", str(environment.source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Cores:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            assert self._worker.stdin is not None
            self._worker.stdin.close()
            self._worker.wait()

    def run(self, **job: Any) -> dict[str, Any]:
        """Let the worker do a job. RuntimeError if it dies."""
        worker = self._worker
        assert worker is not None
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(job) + "\n")
        worker.stdin.flush()
        for line in worker.stdout:
            if line.startswith(ANSWER):
                found: dict[str, Any] = json.loads(line[len(ANSWER) :])
                return found
        raise RuntimeError(f"SGLang's worker died of {job}")


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds that `run` took (other processes on the machine do not count), and what it returned."""
    gc.collect()
    gc.freeze()
    begun = process_time()
    found = run()
    seconds = process_time() - begun
    gc.unfreeze()
    return seconds, found


def options(words: str | None, *more: Callable[[argparse.ArgumentParser], object]) -> argparse.Namespace:
    """The command line that all benchmarks share."""
    parser = argparse.ArgumentParser(description=words, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--repeat", type=int, default=3, help="rounds, each side once a round; the best counts")
    parser.add_argument("--json", type=Path, help="also write the rows there")
    for add in more:
        add(parser)
    return parser.parse_args()


def show(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    widths = [max(len(line[n]) for line in (head, *rows)) for n in range(len(head))]
    for line in (head, *rows):
        cells = (
            cell.ljust(w) if n == 0 else cell.rjust(w) for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())


def write(path: Path | None, rows: Sequence[Row]) -> None:
    """Write rows with what they depend on."""
    if path is None:
        return
    told = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "machine": machine(),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "sglang": RELEASE,
        },
        "rows": list(rows),
    }
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def machine() -> str:
    """The processor and how many cores there are."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    import os

    return f"{model}, {os.cpu_count()} cores"
