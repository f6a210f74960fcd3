"""Every step counts, however many threads or greenlets run them, and whatever room there is."""

from __future__ import annotations

import array
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.support.agent import GREENLET, Laboratory, load
from tfprobe.analysis.core import no_data_reasons
from tfprobe.analysis.steps.step_times import recent_steps
from tfprobe.profile.profile import Problem
from tfprobe.profile.reader.run_reader import load as load_run
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.process_folder.steps import COULD_NOT_GROW, read_steps
from tfprobe.runs.process_folder.steps_layout import read_glance

# Enough names for all blocks of steps.bin that a name can have.
FILL = "for i in range(300): session.run('op%d' % i)\n"
# A disk that has no room for a block.
FULL_DISK = """
from tfprobe_agent.unpatched import UNPATCHED
has_room = UNPATCHED.fallocate
def has_none(*_):
    raise OSError(28, "No space left on device")
UNPATCHED.fallocate = has_none
"""


def test_a_thread_continues_the_block_of_one_that_has_ended(laboratory: Laboratory) -> None:
    """A server with a thread for each request has as many blocks as threads at once."""
    laboratory.arm(trace_level="off")

    laboratory.finish("""
def serve():
    session.run("loss")
    session.run("loss")
for i in range(1200):
    thread = threading.Thread(target=serve, name="request %d" % i)
    thread.start()
    thread.join()
""")

    steps = laboratory.steps()
    (loop,) = steps.loops
    assert (loop.count, loop.threads, loop.thread) == (2400, 1200, "request 0")
    assert loop.times.count == 2400
    assert loop.gaps.count == 1200
    last_end_ns = steps.header.unix_ns(int(loop.recent.end_ns[-1]))
    assert loop.gaps.sum_ns < last_end_ns - loop.first_seen_ns
    (process,) = load_run(RunFolder(laboratory.run), this_machine()).loops
    gaps = [step.gap_ns is not None for step in recent_steps(process)]
    assert gaps == [False, True] * 1200


def test_concurrent_threads_share_the_last_block(laboratory: Laboratory) -> None:
    """More threads than blocks: each step is counted and timed once."""
    laboratory.arm(trace_level="off")

    laboratory.finish("""
sys.setswitchinterval(1e-6)
together = threading.Barrier(300)
def serve():
    together.wait()
    for i in range(40):
        session.run("loss")
    together.wait()
threads = [threading.Thread(target=serve) for i in range(300)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")

    loops = laboratory.steps().loops
    assert sum(loop.count for loop in loops) == 12000
    assert sum(loop.times.count for loop in loops) == 12000
    (shared,) = [loop for loop in loops if loop.name == "(further works)"]
    assert shared.threads == 300 - len(loops) + 1
    assert shared.count == 40 * shared.threads


def test_one_thread_at_a_time_writes_a_shared_block(laboratory: Laboratory) -> None:
    """A thread that is interrupted in the middle of a row loses neither it nor another's."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FILL
        + """
from tfprobe_agent.core.recorder import CURRENT
shared = CURRENT.recorder.shared["session_run"]
class Interrupted:
    def __init__(self, ring):
        self.ring = ring
    def __getitem__(self, at):
        return self.ring[at]
    def __setitem__(self, at, value):
        time.sleep(0.001)  # another thread runs
        self.ring[at] = value
shared.ring = Interrupted(shared.ring)
def serve():
    for i in range(10): session.run("loss")
threads = [threading.Thread(target=serve) for i in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )

    (shared,) = [loop for loop in laboratory.steps().loops if loop.name == "(further works)"]
    assert sum(laboratory.counts().values()) == 340
    assert len(shared.recent.start_ns) == shared.count
    assert (shared.recent.start_ns > 0).all()
    assert (shared.recent.end_ns >= shared.recent.start_ns).all()


def test_a_shared_block_is_traced_like_any(laboratory: Laboratory) -> None:
    """A job that makes up names without end has its steps recorded."""
    laboratory.arm(every=100)

    laboratory.finish(FILL + FILL)

    counts = laboratory.counts()
    (shared,) = [loop for loop in laboratory.steps().loops if loop.name == "(further works)"]
    assert sum(counts.values()) == 600
    assert shared.sampled == shared.count // 100 > 0
    samples = laboratory.events(kind="sample")
    steps_of_samples = [event["step"] for event in samples if event["work"] == shared.index]
    assert steps_of_samples == list(range(99, shared.count, 100))


def test_greenlets_of_one_thread_interleave_their_steps(laboratory: Laboratory) -> None:
    """One that is left in the middle of its step does not hide the steps of the others."""
    laboratory.arm(trace_level="off")
    (laboratory.folder / "packages/greenlet.py").write_text(GREENLET)

    laboratory.finish("""
import greenlet
def step_of_another():
    before, greenlet.current = greenlet.current, other
    session.run("inner")
    greenlet.current = before
others = []
for i in range(300):
    other = greenlet.greenlet(greenlet.main)
    others.append(other)  # the job keeps it
    session.run(step_of_another)
    session.run(lambda: session.run("nested"))
    other.dead = True
""")

    loops = laboratory.steps().loops
    assert laboratory.counts() == {"function": 600, "inner": 300}
    assert len(loops) < 100


def test_steps_without_room_are_counted(laboratory: Laboratory) -> None:
    """On a full disk no block can be made: the report says how many steps had none."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FULL_DISK
        + """
def serve():
    for i in range(100): session.run("loss")
threads = [threading.Thread(target=serve) for i in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    )

    (folder,) = laboratory.folders()
    profile = load_run(RunFolder(laboratory.run), this_machine())
    (process,) = profile.processes
    assert (process.untimed_steps, profile.loops) == (300, ())
    where = f"{folder.parent.name}/{folder.name}"
    what = f"300 steps of 3 threads were not timed: {COULD_NOT_GROW}"
    assert Problem(where, what) in profile.problems
    (why,) = no_data_reasons.explain(profile)
    assert "ran 300 steps" in why


def test_steps_are_timed_once_there_is_room(laboratory: Laboratory) -> None:
    """A disk that was full for a while costs only the times of that while."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        FULL_DISK
        + """
from tfprobe_agent.core import loop, steps_file
loop.REFUSED_NS = steps_file.REFUSED_NS = 0
for i in range(10): session.run("loss")
UNPATCHED.fallocate = has_room
for i in range(10): session.run("loss")
"""
    )

    (folder,) = laboratory.folders()
    file = read_steps(folder / "steps.bin")
    (loop,) = file.loops
    assert (file.header.untimed_steps, file.header.untimed_threads) == (10, 1)
    assert (loop.name, loop.count) == ("loss", 10)
    assert read_glance(folder / "steps.bin").steps == 20


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("comes_free", [True, False])
def test_a_disk_that_is_full_from_the_start(tmp_path: Path, comes_free: bool) -> None:
    """Records wait in memory until there is room; without it, the report says why."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        laboratory = Laboratory(tmp_path).arm(trace_level="off")
        (laboratory.run / os.uname().nodename).symlink_to(mount, target_is_directory=True)
        (mount / "fill").write_bytes(b"x" * (1 << 20))

        laboratory.finish(f"""
for i in range(10): session.run("loss")
if {comes_free}: os.remove({str(mount / "fill")!r})
""")

        profile = load_run(RunFolder(laboratory.run), this_machine())
        if comes_free:
            assert [process.state for process in profile.processes] == ["finished"]
            assert [loop.count for loop in profile.loops] == [10]
        else:
            (why,) = no_data_reasons.explain(profile)
            assert "The disk was full" in why
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


@pytest.mark.parametrize("with_numpy", [True, False])
def test_a_fold_leaves_out_the_time_between_two_threads(with_numpy: bool) -> None:
    """The time from the last step of one thread to the first of the next is no gap."""
    loop, layout = load("core.loop"), load("core.steps_layout")
    words = array.array("q")
    for step in range(layout.FOLD):
        flag = layout.NEW_THREAD_FLAG if step % 4 == 0 else layout.RAISED_FLAG
        words.extend((step * 1000 + 1, step * 1000 + 301 | flag))
    totals = array.array("q", bytes(8 * layout.AGGREGATE_WORDS))
    fold = (lambda *args: loop._fold_with_numpy(np, *args)) if with_numpy else loop._fold

    last_end_ns = fold(totals, memoryview(words), 5)

    assert last_end_ns == (layout.FOLD - 1) * 1000 + 301
    assert list(totals[:4]) == [layout.FOLD, layout.FOLD * 300, 300, 300]
    gaps = layout.FOLD - layout.FOLD // 4
    assert list(totals[4:8]) == [gaps, gaps * 700, 700, 700]
