"""Ask the tables of runs that tests write, and write a run that has rows for most of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.captures import CPU, Node, TraceEvent, run_metadata, xspace
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_process,
    write_run,
)
from tfprobe.query.tables.capture_cache import Choice, this_process
from tfprobe.query.tables.loader import TableLoader, look_at
from tfprobe.query.tables.query import ask
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

FINISHED = {LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS + 60 * 10**9}
Asked = tuple[list[tuple[str, str]], list[tuple[Any, ...]]]


@contextmanager
def opened(*runs: Path, choose: Choice = this_process) -> Iterator[TableLoader]:
    """Open the tables of runs."""
    with tempfile.TemporaryDirectory() as scratch:
        here = this_machine()
        entries, shards = look_at([RunFolder(run) for run in runs], here)
        tables = TableLoader(entries, shards, Path(scratch), here=here, choose=choose)
        try:
            yield tables
        finally:
            tables.close()


def asked(query: str, *runs: Path) -> Asked:
    """Return the columns and rows of an answer."""
    with opened(*runs) as tables:
        return answered(tables, query)


def answered(tables: TableLoader, query: str) -> Asked:
    """Return the columns and rows of an answer of tables that are open."""
    answer = ask(tables, query)
    return list(answer.columns), [row for batch in answer.batches for row in batch]


def sampled_process(
    *, rank: int | None = None, pid: int = 4711, host: str = "node7", captures: int = 2
) -> WrittenProcess:
    """Return a finished process with a loop of 20 steps, of which some were captured."""
    taken = range(3, 3 + captures)
    names = [f"{step:06}-session_run-0.run_metadata.pb" for step in taken]
    steps = regular_steps(20)
    place = {"source": "TF_CONFIG", "index": rank, "world": 4, "role": "worker"}
    return WrittenProcess(
        pid=pid,
        host=host,
        header=FINISHED,
        manifest={"host": host, "rank": None if rank is None else place},
        loops=[WrittenLoop(steps=steps, sampled=tuple(taken))],
        events=[_sample(step, name, steps) for step, name in zip(taken, names, strict=True)],
        captures=dict.fromkeys(names, metadata()),
        gaps=[_gap(taken[0])] if captures else [],
    )


def metadata() -> bytes:
    """Return a RunMetadata of three executions, of which one allocates."""
    kept = Node(
        "layer/MatMul",
        10,
        30,
        "[CPU] layer/MatMul = MatMul(x)",
        requested_bytes=400,
        output_bytes=256,
        records=((10, 400), (40, -400)),
    )
    return run_metadata({CPU: [kept, Node("x", 0, 5, "x = Const()"), Node("y", 50, 2)]})


def window() -> bytes:
    """Return an XSpace of two executions and a call of Python."""
    thread = [TraceEvent("layer/MatMul:MatMul", 10, 30), TraceEvent("x:Const", 0, 5)]
    called = {"tf_function_call": "notTraced-nonXla"}
    python = [TraceEvent("train_step", 0, 90, called)]
    return xspace({"/host:CPU": {"tf_Compute/7": thread, "python": python}}, start_ns=UNIX_NS)


def write_recorded(root: Path) -> Path:
    """Write a run of one process with rows for most tables."""
    write_run(root, interpreters=["node7\t4711\t1\t3.11.7\t/usr/bin/python3"])
    folder = write_process(root, sampled_process(rank=0))
    threads = {
        "since_ns": None,
        "python": [["worker", 1, 70, False, "job.py", 26, "work", True]],
        "guests": [["job.py", 7, "load", False]],
        "native": [["tf_Compute", 2, 30], ["", 1, 0]],
        "unmapped": 0,
    }
    resource_sample = {
        "mono_ns": MONO_NS,
        "steps": 3,
        "user_ns": 5,
        "system_ns": 6,
        "thread_times": threads,
    }
    (folder / "pulses.jsonl").write_text(f"{json.dumps(resource_sample)}\n")
    return root


def _sample(step: int, name: str, steps: Any) -> dict[str, Any]:
    start_ns, end_ns = steps[step]
    return {
        "event": "sample",
        "work": 0,
        "step": step,
        "capture": name,
        "level": "full",
        "why": "budget",
        "start_ns": start_ns,
        "end_ns": end_ns,
        "start_unix_ns": UNIX_NS + start_ns - MONO_NS,
        "plain_ns": 1_000_000,
        "fed_bytes": 128,
    }


def _gap(step: int) -> dict[str, Any]:
    return {
        "work": 0,
        "step": step,
        "start_ns": MONO_NS + 100,
        "end_ns": MONO_NS + 200,
        "cost_ns": 7,
        "cut": False,
        "calls": [[-1, 0, 0, 1, 60], [0, 1, 12, 3, 40]],
        "functions": [["train.py", 10, "main", False], ["", 0, "builtins.len", False]],
    }
