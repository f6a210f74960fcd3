"""A trace request: when a job sees it, what becomes of it, and what is written about it."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.agent import Laboratory, load
from tfprobe.runs.trace_requests import request_samples, request_status

layout = load("core.steps_layout")
A_DAY_NS = 86_400 * 10**9
# One step for each line on stdin. The next look at the control words is a day away.
SLOW_TO_LOOK = f"""
sys.modules["tfprobe_agent.core.step_wrapper"].POLL_NS = {A_DAY_NS}
"""
BY_LINES = """
step = def_function.Function()
def run(line):
    if line.startswith("s"): session.run("loss")
    if line.startswith("f"): step(1)
    print("stepped", flush=True)
for line in sys.stdin: run(line)
"""


@contextmanager
def _started(laboratory: Laboratory, job: str) -> Iterator[subprocess.Popen[bytes]]:
    process = laboratory.start(job)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _step(job: subprocess.Popen[bytes], kinds: str) -> None:
    assert job.stdin is not None
    assert job.stdout is not None
    for kind in kinds:
        job.stdin.write(f"{kind}\n".encode())
        job.stdin.flush()
        assert job.stdout.readline() == b"stepped\n"


def _file(laboratory: Laboratory) -> Path:
    (folder,) = laboratory.folders()
    return folder / "steps.bin"


def _requested(laboratory: Laboratory, kind: str) -> list[dict[str, Any]]:
    events = [event for event in laboratory.events() if event["event"] == kind]
    return [event for event in events if event.get("request") is not None]


def _captured(laboratory: Laboratory) -> list[tuple[int, int, int]]:
    return [(e["request"], e["work"], e["step"]) for e in _requested(laboratory, "sample")]


def _overwrite(file: Path, word: int, *values: int) -> None:
    with file.open("r+b") as words:
        words.seek(word * 8)
        words.write(struct.pack(f"<{len(values)}q", *values))


def test_the_next_step_takes_a_request(laboratory: Laboratory) -> None:
    """However short steps are: a request wakes every loop, and none looks at a clock for it."""
    laboratory.arm(steps=[[0, 0]])

    with _started(laboratory, SLOW_TO_LOOK + BY_LINES) as job:
        _step(job, "sfsfsssff")
        request_samples(_file(laboratory), samples=3)
        _step(job, "sfsfsf")
        sequence = request_samples(_file(laboratory), samples=2, loop=1)
        _step(job, "ssfsfsf")

    # Steps 0 were due. Five steps of the session and four of the function came before the request.
    assert _captured(laboratory) == [(1, 0, 5), (1, 1, 4), (1, 0, 6), (2, 1, 7), (2, 1, 8)]
    assert sequence == request_status(_file(laboratory)).seen == 2


def test_the_next_eager_step_takes_a_request(laboratory: Laboratory) -> None:
    """It is seen where a step ends, and the step after that is traced from its tape on."""
    laboratory.arm(steps=[[0, 0]])
    eager = """
import tensorflow.python.training.optimizer as optimizer_module
from tensorflow.python.eager.backprop import GradientTape
optimizer = optimizer_module.Optimizer()
def run(line):
    with GradientTape(): pass
    optimizer.apply_gradients([])
    print("stepped", flush=True)
for line in sys.stdin: run(line)
"""

    with _started(laboratory, SLOW_TO_LOOK + eager) as job:
        _step(job, "eeeee")
        request_samples(_file(laboratory), samples=2)
        _step(job, "eeeee")

    assert _captured(laboratory) == [(1, 0, 6), (1, 0, 7)]


def test_a_request_replaces_the_one_before(laboratory: Laboratory) -> None:
    """The last one holds, and the job records how many traced steps the replaced one lacks."""
    laboratory.arm(steps=[[0, 0]])

    with _started(laboratory, BY_LINES) as job:
        _step(job, "ss")
        request_samples(_file(laboratory), samples=5)
        _step(job, "ss")
        request_samples(_file(laboratory), samples=1)
        _step(job, "ssss")

    assert _captured(laboratory) == [(1, 0, 2), (1, 0, 3), (2, 0, 4)]
    requests = [
        (e["request"], e["superseded"], e["lacking"]) for e in _requested(laboratory, "request")
    ]
    assert requests == [(1, None, 0), (2, 1, 3)]
    assert request_status(_file(laboratory)).left == 0


def test_a_job_with_tracing_off_declines_a_request(laboratory: Laboratory) -> None:
    """Tracing may be what this job cannot bear: `--trace-level off` overrides a request, too."""
    laboratory.arm(trace_level="off")

    with _started(laboratory, BY_LINES) as job:
        _step(job, "ss")
        sequence = request_samples(_file(laboratory), samples=5)
        _step(job, "sss")

    (declined,) = _requested(laboratory, "declined")
    assert (declined["request"], declined["why"]) == (1, "recorded with --trace-level off")
    status = request_status(_file(laboratory))
    assert (status.seen, status.left) == (sequence, 0)
    assert laboratory.counts() == {"loss": 5}
    assert laboratory.events(kind="sample") == []


def test_garbage_in_the_control_words_is_harmless(laboratory: Laboratory) -> None:
    """Neither a senseless request nor a senseless time of the next look blocks a later request."""
    laboratory.arm(steps=[[0, 0]])
    look = layout.HEADER_WORDS + layout.LOOK
    many = "for _ in range(1024): session.run('loss')\n"

    with _started(laboratory, BY_LINES.replace("for line", many + "for line")) as job:
        _step(job, "s")
        for garbage in (-1, 1 << 62, -(1 << 63), (1 << 63) - 1):
            _overwrite(_file(laboratory), look, garbage)
            _overwrite(_file(laboratory), layout.REQUEST, garbage, garbage, garbage)
            _step(job, "s")
        sequence = request_samples(_file(laboratory), samples=1)
        _step(job, "ss")

    assert [request for request, _, _ in _captured(laboratory)] == [sequence]
    assert {e["why"] for e in _requested(laboratory, "declined")} <= {"unreadable control word"}
    assert laboratory.counts() == {"loss": 1024 + 7}


def test_a_job_looks_again_whatever_its_time_of_the_next_look(laboratory: Laboratory) -> None:
    """At the latest after 1024 steps, without being woken."""
    laboratory.arm(steps=[[0, 0]])
    many = "    for _ in range(1024): session.run('loss')\n    print"

    with _started(laboratory, BY_LINES.replace("    print", many)) as job:
        _step(job, "s")
        _overwrite(_file(laboratory), layout.REQUEST_STEPS, 1, -1)
        _overwrite(_file(laboratory), layout.REQUEST, 1)
        _overwrite(_file(laboratory), layout.HEADER_WORDS + layout.LOOK, (1 << 63) - 1)
        _step(job, "s")

    assert [request for request, _, _ in _captured(laboratory)] == [1]


def test_a_file_that_cannot_be_mapped_takes_requests_too(laboratory: Laboratory) -> None:
    """Its words are read at each look: a step cannot be woken there, so it takes some steps."""
    laboratory.arm(steps=[[0, 0]])
    forked = """
def refuse(*_): raise OSError(95, "not on this file system")
sys.modules["tfprobe_agent.unpatched"].UNPATCHED.fallocate = refuse
if os.fork(): os._exit(os.WEXITSTATUS(os.wait()[1]))
for _ in range(3): session.run("loss")
assert sys.modules["tfprobe_agent.core.recorder"].CURRENT.recorder.steps.mapping is None
print("ready", flush=True)
while sys.stdin.readline() != "end\\n":
    time.sleep(0.01)
    session.run("loss")
    def_function.Function(name="n%d" % time.time())(1)  # a new work writes the header
    print("stepped", flush=True)
"""

    with _started(laboratory, forked) as job:
        assert job.stdout is not None
        assert job.stdin is not None
        assert job.stdout.readline() == b"ready\n"
        folder = laboratory.folders()[-1]
        sequence = request_samples(folder / "steps.bin", samples=2)
        # A slow write delays the next look by a hundred times as much.
        deadline = time.monotonic() + 60
        while (status := request_status(folder / "steps.bin")).seen < sequence or status.left:
            assert time.monotonic() < deadline
            _step(job, "s")
        job.stdin.write(b"end\n")
        job.stdin.flush()
        job.wait(10)

    assert (status.seen, status.left) == (sequence, 0)
    taken = [e for e in laboratory.events(folder) if e["event"] == "sample"]
    assert [e["request"] for e in taken if e["why"] == "request"] == [sequence] * 2


def test_the_end_of_tracing_is_in_the_file(laboratory: Laboratory) -> None:
    """A full disk has no room for an event that would say so."""
    laboratory.arm(steps=[[0, 0]])
    full = (
        """
def refuse(*_): raise OSError(28, "No space left on device")
sys.modules["tfprobe_agent.core.process_dir"].ProcessDir.write_file = refuse
session.run("loss")
"""
        + BY_LINES
    )

    with _started(laboratory, full) as job:
        _step(job, "s")
        request_samples(_file(laboratory), samples=1)
        _step(job, "ss")

    assert request_status(_file(laboratory)).sampling_ended
    (declined,) = _requested(laboratory, "declined")
    assert declined["why"] == "tracing has ended after an error"
    assert laboratory.counts() == {"loss": 4}


def test_concurrent_requests_have_numbers_of_their_own(laboratory: Laboratory) -> None:
    """None is lost unnoticed: each is taken, or superseded."""
    laboratory.arm(steps=[[0, 0]])

    with _started(laboratory, BY_LINES) as job:
        _step(job, "s")
        with ThreadPoolExecutor(8) as pool:
            futures = [
                pool.submit(request_samples, _file(laboratory), samples=1 + n % 3)
                for n in range(40)
            ]
            given = [future.result() for future in futures]
        time.sleep(0.02)
        _step(job, "ssss")

    assert sorted(given) == list(range(1, 41))
    assert {request for request, _, _ in _captured(laboratory)} == {40}
    assert len(_captured(laboratory)) == 1 + given.index(40) % 3
