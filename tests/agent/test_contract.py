"""The analyser reads what the agent writes: counts, times, flags and gaps of every step."""

from __future__ import annotations

import errno
import itertools
import os
import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support.agent import Laboratory, load
from tests.support.rundir import BUCKETS, bucket
from tfprobe.profile.profile import Durations, Loop
from tfprobe.runs.process_folder import steps_layout
from tfprobe.runs.process_folder.steps import read_steps
from tfprobe.runs.process_folder.steps_layout import read_header

layout, loop = load("core.steps_layout"), load("core.loop")
steps_file = load("core.steps_file")
UNPATCHED = load("unpatched").UNPATCHED
TRACED, RAISED = layout.TRACED_FLAG, layout.RAISED_FLAG
START_NS = 7_000_000_000_000


def _times(count: int, seed: int = 1) -> list[tuple[int, int]]:
    """Steps of 1 ns to 17 minutes, some of which take no time, with gaps between them."""
    dice = random.Random(seed)
    times, now = [], START_NS
    for _ in range(count):
        start = now + dice.choice([0, 1, 700, dice.randrange(10**6)])
        now = start + int(2 ** dice.uniform(-1, 40))
        times.append((start, now))
    return times


def _flags(step: int) -> int:
    return (TRACED if step % 97 == 3 else 0) | (RAISED if step % 61 == 5 else 0)


def _refuse(*_: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "not on this file system")


@pytest.fixture(params=["mapped", "plain"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system that can map files, and one that cannot."""
    if request.param == "plain":
        monkeypatch.setattr(UNPATCHED, "fallocate", _refuse)
    return str(request.param)


@pytest.fixture(params=["numpy", "no numpy"])
def arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job that has imported numpy, and one that has not."""
    modules = {"numpy": np} if request.param == "numpy" else {}
    monkeypatch.setattr(loop, "sys", SimpleNamespace(modules=modules))
    return str(request.param)


def _write(path: Path, times: list[tuple[int, int]], flags: Callable[[int], int]) -> Loop:
    file = steps_file.StepsFile(str(path), START_NS)
    loop = file.add_loop("fit", "modèle", "MainThread", 77, START_NS)
    for step, (start, end) in enumerate(times):
        loop.record(start, end, flags(step))
    file.write()
    (record,) = read_steps(path).loops
    return record


def _aggregate(values: list[int]) -> Durations:
    buckets = np.zeros(BUCKETS, dtype=np.int64)
    for number, count in Counter(map(bucket, values)).items():
        buckets[number] = count
    low, high = min(values, default=0), max(values, default=0)
    return Durations(len(values), sum(values), low, high, buckets)


def _as_tuple(aggregate: Durations) -> tuple[object, ...]:
    facts = (aggregate.count, aggregate.sum_ns, aggregate.min_ns, aggregate.max_ns)
    return (*facts, aggregate.buckets.tolist())


def test_writer_and_reader_have_one_layout() -> None:
    """Each spells it for itself, because the agent runs without the analyser."""
    written = (
        *(layout.MAGIC, layout.LAYOUT_VERSION, layout.HEADER_WORDS, layout.LOOP_CAPACITY),
        *(layout.LOOP_WORDS, layout.RING_STEPS, layout.BUCKETS, layout.AGGREGATE_WORDS),
        *(layout.AGGREGATES_AT, layout.RING_AT, layout.THREADS, layout.WORD),
        *(layout.WATCHED_FLAG, layout.NEW_THREAD_FLAG, layout.TRACED_FLAG, layout.RAISED_FLAG),
        *(layout.WAITED_FLAG, layout.TIME_MASK, layout.KINDS, layout.HEAD_WORDS, layout.LOOK),
        *(layout.QUEUES, layout.WAITS, layout.WAIT_NS, layout.CALL_NS),
    )

    read = (
        *(steps_layout.MAGIC, steps_layout.LAYOUT_VERSION, steps_layout.HEADER_WORDS),
        *(steps_layout.LOOP_CAPACITY, steps_layout.LOOP_WORDS, steps_layout.RING_STEPS),
        *(steps_layout.BUCKETS, steps_layout.SLOT_WORDS, steps_layout.SLOTS_WORD),
        *(steps_layout.RING_WORD, steps_layout.THREADS_WORD, steps_layout.WORD_BYTES),
        *(steps_layout.WATCHED_BIT, steps_layout.NEW_THREAD_BIT, steps_layout.SAMPLED_BIT),
        *(steps_layout.RAISED_BIT, steps_layout.WAITED_BIT, steps_layout.TIME_MASK),
        *(steps_layout.KINDS, steps_layout.HEAD_WORDS, steps_layout.LOOK_WORD),
        *(steps_layout.QUEUES_WORD, steps_layout.WAITS_WORD, steps_layout.WAIT_NS_WORD),
        steps_layout.CALL_NS_WORD,
    )
    assert written == read


@pytest.mark.parametrize("count", [1, layout.FOLD - 1, layout.FOLD, layout.FOLD + 1, 20_000])
def test_every_step_is_read_back(tmp_path: Path, count: int, place: str, arithmetic: str) -> None:
    """Counts, sums, extremes and histograms of steps and gaps, before and after the ring wraps."""
    times = _times(count)

    record = _write(tmp_path / "steps.bin", times, _flags)

    gaps = [after[0] - before[1] for before, after in itertools.pairwise(times)]
    assert (record.kind, record.name, record.thread) == ("fit", "modèle", "MainThread")
    assert record.first_seen_ns == read_header(tmp_path / "steps.bin").unix_ns(START_NS)
    assert record.executed == count
    assert record.raised == sum(_flags(step) & RAISED != 0 for step in range(count))
    assert record.sampled == sum(_flags(step) & TRACED != 0 for step in range(count))
    assert _as_tuple(record.times) == _as_tuple(_aggregate([end - start for start, end in times]))
    assert _as_tuple(record.gaps) == _as_tuple(_aggregate(gaps))


def test_a_thread_without_a_name_is_named_by_its_number(tmp_path: Path, place: str) -> None:
    """A thread that Python did not start may have none."""
    path = tmp_path / "steps.bin"
    file = steps_file.StepsFile(str(path), START_NS)
    file.add_loop("fit", "model", "", 77, START_NS).record(START_NS, START_NS + 1, 0)
    file.write()

    (loop,) = read_steps(path).loops

    assert loop.thread == "77"


def test_the_ring_has_the_latest_steps_with_their_flags(tmp_path: Path, place: str) -> None:
    """Start, end and flags of each of the last 8192 steps, except the one being written."""
    times = _times(20_000)

    recent = _write(tmp_path / "steps.bin", times, _flags).recent

    steps = range(recent.first_step, 20_000)
    assert len(steps) >= layout.RING_STEPS - 1
    rows = zip(recent.start_ns.tolist(), recent.end_ns.tolist(), strict=True)
    assert list(rows) == [times[step] for step in steps]
    assert recent.sampled.tolist() == [_flags(step) & TRACED != 0 for step in steps]
    assert recent.raised.tolist() == [_flags(step) & RAISED != 0 for step in steps]


def test_the_usual_time_excludes_traced_and_raised_steps(tmp_path: Path) -> None:
    """A traced step is compared with the median of the ordinary ones before it."""
    file = steps_file.StepsFile(str(tmp_path / "steps.bin"), START_NS)
    loop = file.add_loop("fit", "model", "MainThread", 77, START_NS)
    for length, flags in [(50, 0), (70, 0), (60, 0), (900, TRACED), (1, RAISED)]:
        loop.record(START_NS, START_NS + length, flags)

    assert loop.usual_ns() == 60


def test_a_file_that_cannot_be_mapped_is_still_written(tmp_path: Path, monkeypatch) -> None:
    """mmap may fail where allocation succeeds: FUSE, 9p."""
    mmap = steps_file.mmap.mmap

    def in_memory(descriptor: int, *rest: int) -> object:
        return mmap(descriptor, *rest) if descriptor < 0 else _refuse()

    monkeypatch.setattr(steps_file.mmap, "mmap", in_memory)
    times = _times(3000)

    record = _write(tmp_path / "steps.bin", times, _flags)

    assert record.executed == 3000
    assert record.times.sum_ns == sum(end - start for start, end in times)


def test_names_are_cut_between_characters(tmp_path: Path) -> None:
    """A name that is too long stays readable."""
    file = steps_file.StepsFile(str(tmp_path / "steps.bin"), START_NS)
    file.add_loop("function", "é" * 200, "ü" * 100, 1, START_NS)

    (record,) = read_steps(tmp_path / "steps.bin").loops

    assert record.name == "é" * 127
    assert record.thread == "ü" * 63


def test_loops_beyond_the_capacity_of_the_file_are_counted_together(laboratory: Laboratory) -> None:
    """A job may make up more names than the file has blocks; all its steps are counted."""
    laboratory.arm(trace_level="off")

    laboratory.finish("for i in range(600): session.run('op%d' % (i % 300))")

    counts = laboratory.counts()
    assert sum(counts.values()) == 600
    assert counts["op0"] == counts["op200"] == 2
    assert counts["(further works)"] > 0
    assert len(laboratory.steps().loops) <= 256


def test_names_without_a_block_are_not_kept(laboratory: Laboratory) -> None:
    """A job that makes up a new name at every step does not grow by it."""
    laboratory.arm(trace_level="off")

    (kept,) = laboratory.finish("""
for i in range(3000): session.run('op%d' % i)
from tfprobe_agent.core.threads import THREAD
print(sum(type(key[0]) is str for key in THREAD.current.loops))
""")

    assert int(kept) <= 256
    assert sum(laboratory.counts().values()) == 3000


def test_a_full_disk_ends_neither_the_job_nor_the_counts(laboratory: Laboratory) -> None:
    """Existing loops are still counted; whatever needs more room is left out."""
    laboratory.arm(every=10)

    lines = laboratory.finish("""
import resource
for i in range(15): session.run("loss")
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
for i in range(100): session.run("loss")
for i in range(10): session.run("other")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("done")
""")

    assert lines == ["done"]
    assert laboratory.counts()["loss"] == 115


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize("size_kb", [64, 400, 800])
def test_a_small_file_system_ends_neither_the_job_nor_the_counts(tmp_path: Path, size_kb) -> None:
    """Full from the start, or in the middle: the job prints the same."""
    mount = tmp_path / "small"
    mount.mkdir()
    options = f"size={size_kb}k"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", mount], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode()}")
    try:
        laboratory = Laboratory(tmp_path)
        laboratory.arm(every=3)
        host = laboratory.run / os.uname().nodename
        host.symlink_to(mount, target_is_directory=True)

        lines = laboratory.finish("""
for i in range(2000): session.run('op%d' % (i % 20))
print("done")
""")

        assert lines == ["done"]
        steps = laboratory.steps()
        assert {loop.count for loop in steps.loops} <= {100}
        assert len(steps.loops) >= size_kb // 400
        assert sum(loop.count for loop in steps.loops) + steps.header.untimed_steps == 2000
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


def test_a_job_that_closes_all_files_keeps_its_own(laboratory: Laboratory, tmp_path: Path) -> None:
    """A daemon closes unknown descriptors and opens its own files: the agent writes to none of
    them.
    """
    laboratory.arm(every=2)

    laboratory.finish(f"""
session.run("before")
os.closerange(3, 100)
theirs = [open({str(tmp_path)!r} + "/theirs%d" % i, "wb") for i in range(20)]
for i in range(10): session.run("before")
for i in range(10): session.run("after")
""")

    assert [path.read_bytes() for path in tmp_path.glob("theirs*")] == [b""] * 20
    assert laboratory.counts()["before"] == 11
    assert laboratory.steps().header.untimed_steps == 10


def test_no_step_is_traced_once_the_process_ends(laboratory: Laboratory) -> None:
    """A daemon thread that is killed in the middle of a traced step would abort the process."""
    laboratory.arm(every=1)

    laboratory.finish("""
for i in range(4): session.run("loss")
from tfprobe_agent.core import recorder
recorder.at_exit()
for i in range(4): session.run("loss")
""")

    (loop,) = laboratory.steps().loops
    assert (loop.count, loop.sampled) == (8, 4)


def test_the_exit_waits_for_a_traced_step_of_another_thread(laboratory: Laboratory) -> None:
    """But not for one that waits for something itself."""
    laboratory.arm(every=1)

    short, long = laboratory.finish("""
import threading, time
from tfprobe_agent.core import recorder, tracing
session.run("loss")
def hold(seconds):
    step = object()
    tracing.take(step)
    held.set()
    time.sleep(seconds)
    tracing.give_back(step)
for seconds, patience in ((0.05, 60), (60, 0.2)):
    recorder.EXIT_WAIT_S = patience
    held = threading.Event()
    threading.Thread(target=hold, args=(seconds,), daemon=True).start()
    held.wait()
    recorder.at_exit()
    print(tracing.holder() is not None)
""")

    assert (short, long) == ("False", "True")


def test_the_exit_waits_for_a_thread_that_deletes_a_session(laboratory: Laboratory) -> None:
    """The interpreter would kill it below C++, and abort; but no exit waits for ever."""
    laboratory.arm(trace_level="off")

    short, long = laboratory.finish("""
import threading, time
from tfprobe_agent.core import recorder
session.run("loss")
source = '''
class Session(object):
    def __del__(self):
        began.set()
        time.sleep(seconds)
        over.append(seconds)
'''
exec(compile(source, "tensorflow/python/client/session.py", "exec"))
over = []
for seconds, patience in ((0.05, 60), (60, 0.2)):
    recorder.DELETION_WAIT_S = patience
    began = threading.Event()
    threading.Thread(target=lambda: [Session()].clear(), daemon=True).start()
    began.wait()
    recorder.at_exit()
    print(seconds in over)
""")

    assert (short, long) == ("True", "False")


def test_a_thread_made_in_c_is_not_added_to_the_jobs_list(laboratory: Laboratory) -> None:
    """threading.enumerate() returns the same threads as without the agent."""
    laboratory.arm(trace_level="off")

    lines = laboratory.finish("""
import _thread
done = _thread.allocate_lock()
done.acquire()
def body():
    session.run("loss")
    print([thread.name for thread in threading.enumerate()])
    done.release()
_thread.start_new_thread(body, ())
done.acquire()
""")

    assert lines == ["['MainThread']"]
    assert laboratory.counts() == {"loss": 1}


def test_an_eager_loop_without_a_block_leaves_other_steps_counted(laboratory: Laboratory) -> None:
    """A file that is full for one kind of step is not full for those it has."""
    laboratory.arm(trace_level="off")

    laboratory.finish("""
import tensorflow.python.training.optimizer as optimizer
from tfprobe_agent.core.recorder import CURRENT
session.run("loss")
CURRENT.recorder.steps.capacity = CURRENT.recorder.steps.used
optimizer.Optimizer().apply_gradients([])
session.run("loss")
""")

    assert laboratory.counts() == {"loss": 2}
    assert laboratory.steps().header.untimed_steps == 1
