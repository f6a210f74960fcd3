"""Resource samples have the CPU time of each thread, and where Python's other threads are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import PREFACE, Laboratory, load
from tests.support.interpreters import need_interpreter

thread_times = load("core.thread_times")

# A thread that computes in Python until it is stopped, and a sample taken meanwhile, as soon as the
# process has used some CPU time.
BURNING = """
from tfprobe_agent.core import resource_samples
ended = threading.Event()
used = []
def burn():
    while not ended.is_set():
        sum(value for value in range(1000))
    used.append(time.perf_counter())
def beat_after(cpu_seconds):
    began = time.process_time()
    while time.process_time() < began + cpu_seconds: time.sleep(0.01)
    resource_samples.take_sample(int(time.perf_counter() * 1e9))
"""
BURNING_LINES = (PREFACE + BURNING).split("\n")


def _samples(laboratory: Laboratory, folder: Path | None = None) -> list[dict[str, Any]]:
    return [line["thread_times"] for line in laboratory.lines("pulses.jsonl", folder)]


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.11", "3.12", "3.13"])
def test_a_thread_of_python_has_its_time_and_its_place(
    laboratory: Laboratory, version: str
) -> None:
    """By the name the job gave it, with the line where it was forced to release the lock."""
    laboratory.arm()

    laboratory.finish(
        BURNING
        + """
thread = threading.Thread(target=burn, name="statistics")
session.run("loss")
thread.start()
beat_after(0.5)
ended.set(); thread.join()
""",
        python=str(need_interpreter(version)),
    )

    _, second, _ = _samples(laboratory)
    rows = {row[0]: row for row in second["python"]}
    name, count, cpu_ns, runs_steps, file, line, function, _ = rows["statistics"]
    assert (name, count, runs_steps, file) == ("statistics", 1, False, "<string>")
    assert cpu_ns > 0.1e9
    assert function in ("burn", "<genexpr>")
    assert BURNING_LINES[line - 1].strip().startswith(("while not ended", "sum("))
    assert rows["MainThread"][3:] == [True, "", 0, "", False]
    assert second["unmapped"] == 0


def test_python_36_lists_its_main_thread_alone(laboratory: Laboratory) -> None:
    """The time of the others has the kernel's name, and their number."""
    laboratory.arm()

    laboratory.finish(
        BURNING
        + """
thread = threading.Thread(target=burn, name="statistics")
session.run("loss")
thread.start()
beat_after(0.5)
ended.set(); thread.join()
""",
        python=str(need_interpreter("3.6")),
    )

    _, second, _ = _samples(laboratory)
    assert [row[0] for row in second["python"]] == ["MainThread"]
    assert (second["unmapped"], second["guests"]) == (1, [])
    assert sum(cpu_ns for _, _, cpu_ns in second["native"]) > 0.1e9


def test_other_threads_are_grouped_by_the_kernels_name(
    laboratory: Laboratory,
) -> None:
    """Pools number their threads; Python that runs in one is listed by its place."""
    laboratory.arm()

    laboratory.finish(
        BURNING
        + """
import ctypes, _thread
from tfprobe_agent.core import thread_times
thread_times.NAMING_NS = 10 ** 12  # on a busy machine reading a name may take longer
def named(number):
    ctypes.CDLL(None).prctl(15, b"pool_%d" % number)
    burn()
threads = [_thread.start_new_thread(named, (number,)) for number in (7, 8)]
clocks = [time.pthread_getcpuclockid(thread) for thread in threads]
def beat_after_both(cpu_seconds):
    until = [time.clock_gettime(clock) + cpu_seconds for clock in clocks]
    while any(time.clock_gettime(clock) < then for clock, then in zip(clocks, until)):
        time.sleep(0.01)
    resource_samples.take_sample(int(time.perf_counter() * 1e9))
session.run("loss")
beat_after_both(0.1)
beat_after_both(0.1)
ended.set()
while len(used) < 2: time.sleep(0.01)
"""
    )

    _, _, third, _ = _samples(laboratory)
    groups = {name: (count, cpu_ns) for name, count, cpu_ns in third["native"]}
    assert groups["pool_"][0] == 2
    assert groups["pool_"][1] > 0.1e9
    assert [guest[0] for guest in third["guests"]] == ["<string>"] * 2


def test_each_sample_has_the_time_since_the_one_before(laboratory: Laboratory) -> None:
    """The times of all samples add up to those of the threads, and nothing is counted twice."""
    laboratory.arm()

    (used_s,) = laboratory.finish("""
from tfprobe_agent.core import resource_samples
session.run("loss")
for _ in range(3):
    began = time.thread_time()
    while time.thread_time() < began + 0.1: pass
    resource_samples.take_sample(time.monotonic_ns())
print(time.thread_time())
""")

    samples = _samples(laboratory)
    sampled_ns = sum(
        row[2] for sample in samples for row in sample["python"] if row[0] == "MainThread"
    )
    assert abs(sampled_ns - float(used_s) * 1e9) < 0.05e9
    assert [sample["since_ns"] is None for sample in samples] == [True, False, False, False, False]


def test_a_thread_that_got_a_used_number_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock is behind that of the thread before: all of its time is its own."""
    times = thread_times.ThreadTimes()
    clocks = {7: 500, 8: 90}
    monkeypatch.setattr(thread_times, "_cpu_ns", clocks.get)
    monkeypatch.setattr(thread_times.UNPATCHED, "listdir", lambda _: list(map(str, clocks)))
    monkeypatch.setattr(thread_times, "read_file", lambda path, _: path.encode().split(b"/")[4])
    times.read(2, set(), True)

    clocks.update({7: 20, 8: 100})
    second = times.read(2, set(), True)
    del clocks[7]
    clocks[9] = 1
    third = times.read(2, set(), True)

    # Nothing is left of names that are digits.
    assert second["native"] == [["", 2, 30]]
    assert third["native"] == [["", 2, 1]]


def test_samples_are_as_far_apart_as_their_cost_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for some early ones, they take one part in two thousand of the time."""
    times = thread_times.ThreadTimes()
    clock = iter(range(0, 10**12, 1000 * 1000))  # each look at the clock takes 1 ms
    monkeypatch.setattr(thread_times.UNPATCHED, "monotonic_ns", lambda: next(clock))
    monkeypatch.setattr(thread_times, "_cpu_ns", {7: 1}.get)
    monkeypatch.setattr(thread_times.UNPATCHED, "listdir", lambda _: ["7"])
    monkeypatch.setattr(thread_times, "read_file", lambda *_: b"pool")

    taken = [times.read(1, set(), False) for _ in range(100_000)]

    samples = [index for index, sample in enumerate(taken) if sample is not None]
    spent_ns = sum(taken[index]["cost_ns"] for index in samples)
    assert samples[:4] == [0, 1, 2, 3]
    assert len(samples) > 8
    assert spent_ns <= 1.1 * next(clock) / thread_times.PART_OF_TIME
    assert times.read(1, set(), True) is not None


def test_new_threads_are_named_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If another thread holds the interpreter's lock, each read of a file may take 5 ms."""
    times = thread_times.ThreadTimes()
    looks = iter(range(1000))
    passed_ns = 0
    monkeypatch.setattr(
        thread_times.UNPATCHED, "monotonic_ns", lambda: passed_ns + next(looks) * 400 * 1000
    )
    monkeypatch.setattr(thread_times, "_cpu_ns", lambda _: 5)
    monkeypatch.setattr(thread_times.UNPATCHED, "listdir", lambda _: list(map(str, range(6))))
    monkeypatch.setattr(thread_times, "read_file", lambda *_: b"pool_3")

    named = [times.read(6, set(), True)["native"] for _ in range(2)]
    passed_ns = thread_times.PART_OF_TIME * 2 * 1000 * 1000
    named.append(times.read(6, set(), True)["native"])

    assert [[row[:2] for row in native] for native in named] == [
        [["", 4], ["pool_", 2]],
        [["", 4], ["pool_", 2]],
        [["", 2], ["pool_", 4]],
    ]


def test_without_proc_there_is_no_sample(laboratory: Laboratory) -> None:
    """What the system does not provide is unknown, and ends nothing."""
    laboratory.arm()

    laboratory.finish("""
from tfprobe_agent.core import thread_times
thread_times.TASKS = "/nowhere"
session.run("loss")
""")

    assert _samples(laboratory) == [None, None]
    assert laboratory.errors() == []


def test_a_forked_child_starts_anew(laboratory: Laboratory) -> None:
    """The threads of its parent are not its own."""
    laboratory.arm()

    laboratory.finish("""
thread = threading.Thread(target=time.sleep, args=(60,), daemon=True, name="sleeper")
thread.start()
session.run("loss")
if os.fork() == 0:
    session.run("loss")
    sys.exit(0)
os.wait()
""")

    _, child = laboratory.folders()
    first, _ = _samples(laboratory, child)
    (row,) = first["python"]
    assert (first["since_ns"], row[0], row[3]) == (None, "MainThread", True)


def test_a_sample_keeps_no_object_of_a_thread_alive(laboratory: Laboratory) -> None:
    """A frame holds what its function does."""
    laboratory.arm()

    (alive,) = laboratory.finish("""
import weakref
from tfprobe_agent.core import resource_samples
class Large: pass
kept, ended = [], threading.Event()
def hold():
    large = Large()
    kept.append(weakref.ref(large))
    began = time.thread_time()
    while time.thread_time() < began + 0.2: pass
    ended.wait()
thread = threading.Thread(target=hold)
session.run("loss")
thread.start()
while not kept: pass
resource_samples.take_sample(time.monotonic_ns())
ended.set(); thread.join()
print(kept[0]() is None)
""")

    assert alive == "True"


def test_the_lock_of_the_list_of_threads_is_not_taken(laboratory: Laboratory) -> None:
    """A signal handler may run a step while its own thread holds it; here another thread does."""
    laboratory.arm(trace_level="off")

    lines = laboratory.finish("""
held, over = threading.Event(), threading.Event()
def hold():
    with threading._active_limbo_lock:
        held.set()
        over.wait(30)
thread = threading.Thread(target=hold)
thread.start()
held.wait()
for _ in range(3): session.run("loss")
print(thread.is_alive())
over.set()
thread.join()
""")

    assert lines == ["True"]
    assert _samples(laboratory)[0] is not None
