"""Stacks of a process by hand: what was read when, on one thread or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.support.rundir import UNIX_NS
from tfprobe.profile.activities import (
    NO_STACK,
    SampledChunk,
    SampledFrame,
    SampledThread,
    StackSamples,
)

MS = 1_000_000
MAIN = SampledThread(77, "MainThread")
_AGENT = "/runs/r/boot/tfprobe_agent"
# Functions by name; `wrapper` is what the agent puts around a step, and `door` what it did once.
FRAMES: Mapping[str, SampledFrame] = {
    "main": SampledFrame("/work/train.py", 3, "<module>"),
    "load": SampledFrame("/work/train.py", 9, "load"),
    "fit": SampledFrame("/venv/lib/python3.11/site-packages/keras/trainer.py", 397, "fit"),
    "wrapper": SampledFrame(
        f"{_AGENT}/core/step_wrapper.py", 75, "make.<locals>.around.<locals>.step_wrapper"
    ),
    "door": SampledFrame(f"{_AGENT}/door.py", 65, "make.<locals>.door"),
    "execute": SampledFrame("/venv/lib/python3.11/site-packages/tf/execute.py", 53, "execute"),
    "import": SampledFrame("<frozen importlib._bootstrap>", 241, "_call_with_frames_removed"),
    "work": SampledFrame("/work/train.py", 30, "work"),
}

# A moment in ms after the start, and a stack as names, outermost first.
Reads = Sequence[tuple[float, str]]


def sampled(
    reads: Mapping[SampledThread, Reads] | Reads,
    end_ms: float,
    *,
    samples: int = 100,
    rate_per_s: int = 20,
    start_ns: int = UNIX_NS,
) -> StackSamples:
    """Return what was read from `start_ns` for so long; a stack changes right when it was read."""
    by_thread = reads if isinstance(reads, Mapping) else {MAIN: reads}
    names = list(FRAMES)
    nodes: dict[tuple[int, int], int] = {}
    columns: list[tuple[int, int, int, int]] = []
    for thread, each in enumerate(by_thread.values()):
        ends_ms = [at_ms for at_ms, _ in each[1:]] + [end_ms]
        for (at_ms, stack), until_ms in zip(each, ends_ms, strict=True):
            node = NO_STACK
            for name in stack.split():
                node = nodes.setdefault((node, names.index(name)), len(nodes))
            columns.append((thread, node, int(at_ms * MS), int(until_ms * MS)))
    thread_of, node_of, starts, ends = np.array(columns, dtype=np.int64).T
    paths = np.array(list(nodes), dtype=np.int64).reshape(-1, 2)
    end_ns = start_ns + int(end_ms * MS)
    return StackSamples(
        process=0,
        frames=tuple(FRAMES.values()),
        callers=paths[:, 0],
        frame_of=paths[:, 1],
        threads=tuple(by_thread),
        thread=thread_of,
        nodes=node_of,
        read_ns=starts + start_ns,
        start_ns=starts + start_ns,
        end_ns=ends + start_ns,
        chunks=(SampledChunk(start_ns, end_ns, rate_per_s, samples, 4, 5 * MS),),
    )
