"""What py-spy writes becomes stacks with the moments at which they were read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfprobe.attach.sampler.stack_file import CHROME_TRACE_MOST_FRAMES, Read, parse
from tfprobe.profile.activities import SampledFrame

MAIN = "thread (77): MainThread"


def event(phase: str, at_us: int, name: str, *, file: str = "/job.py", line: int = 1) -> Any:
    where = {"filename": "" if name.startswith("thread") else file, "line": line}
    return {"ph": phase, "ts": at_us, "tid": 9, "pid": 77, "name": name, "args": where}


def written(*events: Any) -> bytes:
    return json.dumps(events).encode()


def test_a_stack_lasts_until_another_one_is_read() -> None:
    """Frames that end and begin at one moment are one change; the end of the trace is none."""
    content = written(
        event("B", 10, MAIN),
        event("B", 10, "main", line=3),
        event("B", 10, "step", line=7),
        event("E", 60, "step", line=7),
        event("B", 60, "gap", line=9),
        event("E", 90, "gap", line=9),
        event("E", 90, "main", line=3),
        event("E", 90, MAIN),
    )

    trace = parse(content)

    main = SampledFrame("/job.py", 3, "main")
    (thread,) = trace.threads
    assert (trace.end_us, thread.id, thread.name) == (90, 77, "MainThread")
    assert thread.reads == [
        Read(10, (main, SampledFrame("/job.py", 7, "step"))),
        Read(60, (main, SampledFrame("/job.py", 9, "gap"))),
    ]


def test_a_thread_without_python_has_no_stack() -> None:
    """A pthread has a number in hexadecimal; its name may be unknown."""
    content = written(
        event("B", 0, "thread (0x7F01)"), event("B", 5, "f"), event("E", 8, "f"), event("E", 9, "x")
    )

    (thread,) = parse(content).threads

    assert (thread.id, thread.name) == (0x7F01, "")
    assert [read.stack for read in thread.reads] == [None, (SampledFrame("/job.py", 1, "f"),), None]


def test_of_a_deep_recursion_the_outer_frames_stay() -> None:
    """What is deeper is not kept."""
    frames = [event("B", 0, "again", line=at) for at in range(1000)]

    (thread,) = parse(written(event("B", 0, MAIN), *frames, event("E", 9, "again"))).threads

    (read,) = thread.reads
    assert read.stack is not None
    assert [frame.line for frame in read.stack] == list(range(CHROME_TRACE_MOST_FRAMES))


@pytest.mark.parametrize("content", [b"", b"[", b"{}{}", b"[1]", b'[{"tid":1}]', b"7", b"\xff"])
def test_what_is_no_trace_is_a_value_error(content: bytes) -> None:
    """Whatever another program writes."""
    with pytest.raises(ValueError):
        parse(content)
