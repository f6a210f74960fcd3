"""What a process has used is sampled at most once per second, by steps that look anyway."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import Laboratory, load
from tests.support.interpreters import need_interpreter
from tfprobe.runs.process_folder.resource_samples import COUNTS, RATIOS, resource_sample_log

resource_samples = load("core.resource_samples")


def _lines(laboratory: Laboratory, folder: Path | None = None) -> list[dict[str, Any]]:
    return laboratory.lines("pulses.jsonl", folder)


def test_the_first_step_and_the_exit_take_a_sample(laboratory: Laboratory) -> None:
    """A job of a second has two, a longer one has one more per second."""
    laboratory.arm()

    laboratory.finish("for _ in range(100): session.run('loss')")

    first, last = _lines(laboratory)
    assert (first["steps"], last["steps"]) == (0, 100)
    assert first["mono_ns"] < last["mono_ns"]


def test_one_sample_a_second_and_later_fewer(laboratory: Laboratory) -> None:
    """From the thousandth on at twice the distance: a job of a week writes some megabytes."""
    laboratory.arm()

    (taken, *distances) = laboratory.finish("""
from tfprobe_agent.core import resource_samples
session.run("loss")
now_ns = time.monotonic_ns()
resource_samples.RESOURCE_SAMPLES.next_ns = 0
seen = []
for _ in range(3000):
    now_ns = max(now_ns + 1, resource_samples.RESOURCE_SAMPLES.next_ns)
    resource_samples.take_sample(now_ns)
    seen.append(resource_samples.RESOURCE_SAMPLES.next_ns - now_ns)
print(len(seen))
for value in sorted(set(seen)): print(value)
""")

    assert taken == "3000"
    assert distances == ["1000000000", "2000000000", "4000000000", "8000000000"]


def test_the_numbers_are_those_of_the_process(laboratory: Laboratory) -> None:
    """CPU time, memory, threads, switches, storage, of all threads."""
    laboratory.arm()

    (allocated, user_s) = laboratory.finish("""
from tfprobe_agent.core import resource_samples
resource_samples.SLOW_READ_NS = 10**12
session.run("loss")
kept = bytearray(80 << 20)
def work():
    while time.thread_time() < 0.3: pass
thread = threading.Thread(target=work)
thread.start(); thread.join()
print(len(kept))
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
""")

    first, last = _lines(laboratory)
    assert last["resident_bytes"] - first["resident_bytes"] > int(allocated) * 0.9
    assert last["peak_resident_bytes"] >= last["resident_bytes"]
    assert last["user_ns"] + last["system_ns"] - first["user_ns"] - first["system_ns"] > 0.25e9
    assert 0 <= last["user_ns"] - float(user_s) * 1e9 < 0.5e9
    assert first["threads"] >= 1
    assert 1 <= first["cpus"] <= 4096
    pages = resource.getpagesize()
    assert first["machine_memory_bytes"] % pages == 0
    assert first["machine_memory_bytes"] > last["resident_bytes"]
    assert last["voluntary_switches"] >= first["voluntary_switches"] >= 0
    assert last["major_faults"] >= first["major_faults"] >= 0
    assert last["run_delay_ns"] >= first["run_delay_ns"] >= 0
    # Counted in ticks, mostly of 10 ms, of all CPUs and all processes.
    assert last["machine_busy_ns"] - first["machine_busy_ns"] > 0.2e9
    assert last["machine_io_wait_ns"] >= first["machine_io_wait_ns"] >= 0
    assert last["machine_steal_ns"] >= first["machine_steal_ns"] >= 0


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.11", "3.12", "3.13"])
def test_garbage_collections_are_timed(laboratory: Laboratory, version: str) -> None:
    """They take as long as the job sees, the longest are listed; a forked child starts again.

    Python 3.6 notifies nobody of a fork before there was a second thread.
    """
    python = str(need_interpreter(version))
    laboratory.arm()

    took_ns, in_child_ns = laboratory.finish(
        """
import gc
def collect():
    session.run("loss")
    began_ns = time.perf_counter() * 1e9
    for _ in range(5): gc.collect()
    print(int(time.perf_counter() * 1e9 - began_ns))
    sys.stdout.flush()
first = threading.Thread(target=int)
first.start(); first.join()
gc.disable()
kept = [[] for _ in range(200000)]
collect()
if os.fork() == 0:
    collect()
    sys.exit(0)
os.wait()
""",
        python=python,
    )

    for folder, ns in zip(laboratory.folders(), (took_ns, in_child_ns), strict=True):
        first, last = _lines(laboratory, folder)
        grown_ns = last["gc_ns"] - first["gc_ns"]
        assert 0.5 * int(ns) <= grown_ns <= last["mono_ns"] - first["mono_ns"]
        lengths_ns = [end_ns - start_ns for start_ns, end_ns in last["gc_pauses"]]
        assert len(lengths_ns) == 5
        assert abs(sum(lengths_ns) - grown_ns) <= 1000
        assert first["mono_ns"] <= last["gc_pauses"][0][0]
        assert last["gc_pauses"][-1][1] <= last["mono_ns"]
    assert first["gc_ns"] < int(took_ns)


def test_no_python_of_the_agent_runs_in_a_collection(laboratory: Laboratory) -> None:
    """The collector would print, and drop, what a signal handler of the job raises there."""
    laboratory.arm()

    (seen,) = laboratory.finish("""
import gc, signal
session.run("loss")
frames = []
sys.setprofile(lambda frame, event, _: frames.append(frame.f_code.co_filename))
gc.collect()
sys.setprofile(None)
print(sum("tfprobe" in each for each in frames))
""")

    assert seen == "0"


def test_a_machine_of_many_cpus_is_read_seldom(laboratory: Laboratory) -> None:
    """The kernel takes milliseconds to write /proc/stat there; samples in between have no such
    numbers.
    """
    laboratory.arm()

    laboratory.finish("""
from tfprobe_agent.core import resource_samples
resource_samples.SLOW_READ_NS = -1
session.run("loss")
for _ in range(33): resource_samples.take_sample(time.monotonic_ns())
""")

    known = [line["machine_busy_ns"] is not None for line in _lines(laboratory)]
    assert [index for index, is_known in enumerate(known) if is_known] == [0, 1, 17, 33]


@pytest.mark.parametrize(
    "line", ["", "cpu", "cpu 1 2 3", "cpu 1 2 3 4 5 6 x 8", "cpu 1 2 3 4 5 6 7 -8"]
)
def test_an_unknown_format_ends_no_samples(laboratory: Laboratory, line: str) -> None:
    """What stands in for /proc in a container may write less, or something else."""
    laboratory.arm()

    laboratory.finish(f"""
from tfprobe_agent.core import resource_samples
original = resource_samples.read_file
def read(path, *limit):
    return {line.encode()!r} if path == "/proc/stat" else original(path, *limit)
resource_samples.read_file = read
session.run("loss")
""")

    assert [sample["machine_busy_ns"] for sample in _lines(laboratory)] == [None, None]
    assert laboratory.errors() == []


def test_a_job_may_empty_the_list_of_callbacks(laboratory: Laboratory) -> None:
    """From then on the time of collections is unknown, and no number is made up."""
    laboratory.arm()

    laboratory.finish("""
import gc
session.run("loss")
gc.callbacks.clear()
gc.collect()
""")

    first, last = _lines(laboratory)
    assert (first["gc_ns"] is None, last["gc_ns"], last["gc_pauses"]) == (False, None, None)


def test_the_reader_takes_what_the_agent_writes(laboratory: Laboratory) -> None:
    """Every name that is written is read, and the other way round."""
    laboratory.arm()
    laboratory.finish("session.run('loss')")
    (folder,) = laboratory.folders()

    log = resource_sample_log(folder / "pulses.jsonl")
    samples = log.read().things

    written = {*_lines(laboratory)[0]}
    apart = {"mono_ns", "steps", "at_exit", "gc_pauses", "thread_times"}
    assert written == apart | {*COUNTS, *RATIOS}
    assert ([sample.at_exit for sample in samples], log.bad_lines) == ([False, True], 0)


def test_values_that_cannot_be_read_are_null(laboratory: Laboratory) -> None:
    """A container without /proc, an interpreter without `resource`."""
    laboratory.arm()

    laboratory.finish("""
from tfprobe_agent.core import resource_samples
def refuse(*_): raise OSError(13, "closed")
resource_samples.read_file = refuse
resource_samples.UNPATCHED.getloadavg = resource_samples.UNPATCHED.sched_getaffinity = refuse
resource_samples.getrusage = None
session.run("loss")
""")

    for line in _lines(laboratory):
        known = {name for name, value in line.items() if value is not None}
        assert known == {
            "mono_ns",
            "steps",
            "at_exit",
            "machine_memory_bytes",
            "gc_ns",
            "gc_pauses",
        }
    assert laboratory.errors() == []


def test_a_forked_child_has_samples_of_its_own(laboratory: Laboratory) -> None:
    """Its steps are not its parent's."""
    laboratory.arm()

    laboratory.finish("""
for _ in range(7): session.run("loss")
if os.fork() == 0:
    for _ in range(3): session.run("loss")
    sys.exit(0)
os.wait()
""")

    parent, child = laboratory.folders()
    assert _lines(laboratory, parent)[-1]["steps"] == 7
    assert [line["steps"] for line in _lines(laboratory, child)] == [0, 3]


def test_a_sample_is_cheap_and_accounted_for(laboratory: Laboratory) -> None:
    """Well under a millisecond even on a slow machine; its time is reported as the agent's cost."""
    laboratory.arm(trace_level="off")

    (best_ns, accounted_ns) = laboratory.finish("""
from tfprobe_agent.core import resource_samples
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.core.steps_layout import ONCE_NS
session.run("loss")
words = current_recorder().steps.words
before, best = words[ONCE_NS], 10**9
for _ in range(50):
    began = time.monotonic_ns()
    resource_samples.take_sample(began)
    best = min(best, time.monotonic_ns() - began)
print(best)
print(words[ONCE_NS] - before)
""")

    assert int(best_ns) < 500_000
    assert int(accounted_ns) >= 50 * int(best_ns) * 0.8


def _tree(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


V2 = {
    "cpu.stat": "usage_usec 5\n",
    "slice/cpu.max": "150000 100000\n",
    "slice/cpu.stat": "nr_throttled 3\nthrottled_usec 77\n",
    "slice/memory.max": "max\n",
    "slice/job/cpu.max": "max 100000\n",
    "slice/job/cpu.stat": "throttled_usec 0\n",
    "slice/job/memory.max": "1073741824\n",
}
V1 = {
    "cpu/docker/job/cpu.cfs_quota_us": "400000\n",
    "cpu/docker/job/cpu.cfs_period_us": "100000\n",
    "cpu/docker/job/cpu.stat": "nr_periods 9\nthrottled_time 5000\n",
    "cpu/cpu.cfs_quota_us": "-1\n",
    "cpu/cpu.cfs_period_us": "100000\n",
    "memory/docker/job/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/memory.limit_in_bytes": "2147483648\n",
}
CONTAINER = {
    "cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
    "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "cpu,cpuacct/cpu.stat": "throttled_time 9\n",
}
HYBRID_V1 = "4:memory:/docker/job\n2:cpu,cpuacct:/docker/job\n0::/\n"


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/slice/job\n", V2, (1.5, 77_000, 1 << 30)),
        ("4:memory:/docker/job\n2:cpu,cpuacct:/docker/job\n", V1, (4.0, 5000, 2 << 30)),
        ("2:cpu,cpuacct:/docker/gone\n", CONTAINER, (0.5, 9, None)),
        ("0::/elsewhere\n", {"cpu.max": "max 100000\n"}, (None, None, None)),
        ("nonsense\n::\n0::/../../x\n", {"cpu.max": "zero\n", "memory.max": "-3"}, (None,) * 3),
        ("", {}, (None, None, None)),
    ],
    ids=["version 2", "version 1", "container", "no limit", "nonsense", "no cgroup"],
)
def test_limits_are_those_of_the_tightest_group(
    tmp_path: Path, membership: str, files: dict[str, str], expected: tuple[object, ...]
) -> None:
    """A limit of an enclosing group holds, too; throttling is read where the limit is."""
    (tmp_path / "membership").write_text(membership)
    root = _tree(tmp_path / "cgroup", files)

    limits = resource_samples.Cgroup(str(tmp_path / "membership"), str(root)).read()

    values = (limits["cpu_limit"], limits["throttled_ns"], limits["memory_limit_bytes"])
    assert values == expected
