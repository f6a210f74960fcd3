"""In the gap after a traced step the agent sees what Python calls, and the job does not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent import Laboratory
from tests.support.interpreters import need_interpreter, python_path
from tfprobe.profile.activities import Call, Gap

MS = 1_000_000
# In a job: `line()` returns the line it is called from.
LINES = "def line(): return sys._getframe(1).f_lineno\n"


@pytest.fixture(params=["this", "3.6", "3.7", "3.8", "3.12", "3.13"])
def python(request: pytest.FixtureRequest) -> str:
    """Profile functions were rebuilt in Python 3.11 and again in 3.12."""
    return python_path(request.param)


def find(gap: Gap, name: str) -> Call:
    (call,) = [call for call in gap.calls if call.function == name]
    return call


def names(gap: Gap) -> set[str]:
    return {call.function for call in gap.calls}


def test_a_sleeping_callback_is_found(laboratory: Laboratory, python: str) -> None:
    """By its name, the lines of its definition and of its call, and the time it slept."""
    laboratory.arm(every=1)

    (called, slept) = laboratory.finish(
        LINES
        + """
def callback():
    time.sleep(0.02); return line()
session.run("loss")
here = line(); slept = callback()
session.run("loss")
print(here)
print(slept)
""",
        python=python,
    )

    gap = laboratory.gaps()[0]
    callback, sleep = find(gap, "callback"), find(gap, "time.sleep")
    assert (callback.called_line, sleep.called_line) == (int(called), int(slept))
    assert (callback.line, callback.file) == (int(slept) - 1, "<string>")
    assert gap.calls[sleep.parent or 0] is callback
    assert (sleep.file, sleep.line) == ("", 0)
    assert 20 * MS <= sleep.self_ns <= gap.duration_ns
    assert not gap.cut


def test_a_generator_in_a_gap_is_marked_as_one(laboratory: Laboratory, python: str) -> None:
    """It is what makes the next batch."""
    laboratory.arm(every=1)

    laboratory.finish(
        """
def batches():
    for _ in range(3):
        time.sleep(0.005)
        yield "loss"
for batch in batches():
    session.run(batch)
""",
        python=python,
    )

    first, second, last = laboratory.gaps()
    for gap in (first, second):
        assert find(gap, "batches").is_generator
        assert find(gap, "time.sleep").self_ns >= 5 * MS
    assert [gap.cut for gap in (first, second, last)] == [False, False, True]
    assert {call.file for call in first.calls} == {"<string>", ""}


def test_gaps_end_where_the_next_step_begins(laboratory: Laboratory) -> None:
    """Whatever kind of step it is; each starts after its own step."""
    laboratory.arm(every=1)

    laboratory.finish("""
step = def_function.Function()
for _ in range(3):
    session.run("loss")
    step(1)
""")

    steps = sorted(
        (start, end)
        for loop in laboratory.steps().loops
        for start, end in zip(loop.recent.start_ns, loop.recent.end_ns, strict=True)
    )
    gaps = laboratory.gaps()
    assert len(gaps) == len(steps) == 6
    for gap, before, after in zip(gaps, steps, steps[1:], strict=False):
        assert before[1] <= gap.start_ns <= gap.start_ns + gap.duration_ns <= after[0]
        assert not gap.cut


def test_only_traced_steps_are_followed_by_a_watch(laboratory: Laboratory, python: str) -> None:
    """No profile function is set inside any step, nor after one that is not traced."""
    laboratory.arm(every=3, budget=0.0)

    lines = laboratory.finish(
        """
inside, between = [], []
def look(): inside.append(sys.getprofile() is not None)
for _ in range(7):
    session.run(look)
    between.append(sys.getprofile() is not None)
print(inside)
print(between)
""",
        python=python,
    )

    assert lines == [str([False] * 7), str([n % 3 == 2 for n in range(7)])]
    assert [gap.step for gap in laboratory.gaps()] == [2, 5]


def test_a_profiler_or_debugger_of_the_job_keeps_its_place(laboratory: Laboratory) -> None:
    """Nothing is watched while one is active."""
    laboratory.arm(every=1)

    lines = laboratory.finish("""
def mine(frame, event, arg): pass
sys.setprofile(mine)
session.run("loss")
print(sys.getprofile() is mine)
sys.setprofile(None)
sys.settrace(mine)
session.run("loss")
print(sys.gettrace() is mine, sys.getprofile())
sys.settrace(None)
""")

    assert lines == ["True", "True None"]
    assert laboratory.gaps() == ()


def test_a_profiler_that_the_job_starts_in_a_gap_keeps_its_place(
    laboratory: Laboratory, python: str
) -> None:
    """The watch ends there, cut."""
    laboratory.arm(every=2, budget=0.0)

    lines = laboratory.finish(
        """
def mine(frame, event, arg): pass
session.run("loss"); session.run("loss")
time.sleep(0.002)
sys.setprofile(mine)
time.sleep(0.3)
session.run("loss")
print(sys.getprofile() is mine)
""",
        python=python,
    )

    (gap,) = laboratory.gaps()
    assert lines == ["True"]
    assert gap.cut
    assert find(gap, "time.sleep").count == 1
    assert gap.duration_ns >= 2 * MS


def test_cprofile_counts_the_same_calls_as_without_the_agent(
    laboratory: Laboratory, python: str
) -> None:
    """Started in a watched gap and stopped two steps later."""
    laboratory.arm(every=2, budget=0.0)

    lines = laboratory.finish(
        """
import cProfile, pstats
def counted(): pass
session.run("loss"); session.run("loss")
profiler = cProfile.Profile()
profiler.enable()
for _ in range(3): counted()
session.run("loss"); session.run("loss")
for _ in range(2): counted()
profiler.disable()
calls = pstats.Stats(profiler).stats
print([value[0] for key, value in calls.items() if key[2] == "counted"], sys.getprofile())
""",
        python=python,
    )

    assert lines == ["[5] None"]


def test_a_monitoring_tool_prevents_watches(laboratory: Laboratory) -> None:
    """From Python 3.12 on coverage and debuggers use `sys.monitoring`, where nothing else shows
    them.
    """
    python = need_interpreter("3.12")
    laboratory.arm(every=1)

    laboratory.finish(
        """
sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "coverage")
session.run("loss")
sys.monitoring.free_tool_id(sys.monitoring.COVERAGE_ID)
session.run("loss")
""",
        python=str(python),
    )

    assert [gap.step for gap in laboratory.gaps()] == [1]


@pytest.mark.parametrize("version", ["3.7", "3.12"])
def test_threads_that_all_run_steps_do_not_pay_for_each_other(
    laboratory: Laboratory, version: str
) -> None:
    """From Python 3.12 on a profile function of one thread slows all."""
    python = need_interpreter(version)
    laboratory.arm(every=1)

    laboratory.finish(
        """
def run(): session.run("other")
session.run("loss")
thread = threading.Thread(target=run)
thread.start()
thread.join()
session.run("loss")
""",
        python=str(python),
    )

    names_of = {loop.index: loop.name for loop in laboratory.steps().loops}
    watched = sorted((names_of[gap.loop], gap.step) for gap in laboratory.gaps())
    everything = [("loss", 0), ("loss", 1), ("other", 0)]
    assert watched == (everything if version == "3.7" else [("loss", 0)])


def test_a_profile_function_that_the_job_restores_later_removes_itself(
    laboratory: Laboratory,
) -> None:
    """A job that saves and restores it may do so after the watch has ended."""
    laboratory.arm(every=2, budget=0.0)

    lines = laboratory.finish("""
session.run("loss"); session.run("loss")
saved = sys.getprofile()
session.run("loss")
sys.setprofile(saved)
len("")
print(saved is not None, sys.getprofile())
""")

    assert lines == ["True None"]


def test_a_watch_ends_after_many_calls(laboratory: Laboratory, python: str) -> None:
    """After 20,000 calls and returns, or a limit of their cost, the job runs unwatched."""
    laboratory.arm(every=1)

    (left,) = laboratory.finish(
        """
def nothing(): pass
session.run("loss")
for _ in range(30000): nothing()
print(sys.getprofile())
""",
        python=python,
    )

    (gap,) = laboratory.gaps()
    assert (left, gap.cut) == ("None", True)
    assert 1000 < sum(call.count for call in gap.calls) <= 10_001


def test_a_function_called_while_a_graph_is_made_is_no_step(laboratory: Laboratory) -> None:
    """A call that passes a step wrapper without being a step does not end the gap."""
    laboratory.arm(every=1)

    laboratory.finish("""
import tensorflow.python.eager.context as context
inner = def_function.Function(lambda value: time.sleep(0.002) or value)
session.run("loss")
context._Context._thread_local_data.is_eager = False
inner(1)
context._Context._thread_local_data.is_eager = True
time.sleep(0.01)
session.run("loss")
""")

    gap = laboratory.gaps()[0]
    inside, after = (call for call in gap.calls if call.function == "time.sleep")
    assert find(gap, "<lambda>") is gap.calls[inside.parent or 0]
    assert after.self_ns >= 10 * MS


EAGER = """
import tensorflow.python.eager.backprop as backprop
import tensorflow.python.training.optimizer as optimizers
optimizer = optimizers.Optimizer()
def step(tape):
    time.sleep(0.004)
    if tape:
        with backprop.GradientTape(): time.sleep(0.001)
    optimizer.apply_gradients([])
"""


@pytest.mark.parametrize("tape", [True, False])
def test_an_eager_gap_ends_at_the_tape_or_the_optimizer(
    laboratory: Laboratory, tape: bool, python: str
) -> None:
    """An eager step lies between two optimizer steps; its input is fetched before the tape."""
    laboratory.arm(every=3, budget=0.0)

    laboratory.finish(EAGER + f"for n in range(4): step(n < 3 or {tape})", python=python)

    (gap,) = laboratory.gaps()
    assert (gap.step, gap.cut) == (2, False)
    assert find(gap, "time.sleep").self_ns >= 4 * MS
    assert find(gap, "time.sleep").count == 1


def test_the_time_of_a_watch_is_no_part_of_an_eager_step(laboratory: Laboratory) -> None:
    """The step after a traced one begins later, by the cost of tracing and watching."""
    laboratory.arm(every=3, budget=0.0)

    laboratory.finish(
        EAGER
        + """
def nothing(): pass
for _ in range(4):
    step(True)
    for _ in range(4000): nothing()
"""
    )

    (gap,) = laboratory.gaps()
    (loop,) = laboratory.steps().loops
    assert gap.cost_ns > 1 * MS
    assert loop.recent.start_ns[3] >= gap.start_ns + gap.cost_ns
    assert loop.recent.start_ns[3] <= loop.recent.end_ns[3]


def test_a_forked_child_is_not_watched(laboratory: Laboratory) -> None:
    """The parent's watch goes on, and the child writes nothing into the parent's files."""
    laboratory.arm(every=1)

    lines = laboratory.finish("""
session.run("loss")
pid = os.fork()
if pid == 0:
    print(sys.getprofile(), flush=True)
    for _ in range(30000): len("")
    os._exit(0)
os.waitpid(pid, 0)
time.sleep(0.002)
print(sys.getprofile() is not None)
session.run("loss")
""")

    first, _ = laboratory.gaps()
    assert lines == ["None", "True"]
    assert {"posix.fork", "posix.waitpid", "time.sleep"} <= names(first)


def test_each_thread_is_watched_separately(laboratory: Laboratory) -> None:
    """Calls of other threads are not in its gap; a thread that ends leaves its gap cut."""
    laboratory.arm(every=1)

    laboratory.finish("""
def other():
    session.run("other")
    time.sleep(0.01)
session.run("loss")
thread = threading.Thread(target=other)
thread.start()
thread.join()
session.run("loss")
""")

    gaps = laboratory.gaps()
    loops = {loop.name: loop.index for loop in laboratory.steps().loops}
    own = [gap for gap in gaps if gap.loop == loops["loss"]]
    (others,) = [gap for gap in gaps if gap.loop == loops["other"]]
    assert "other" not in names(own[0])
    assert find(others, "time.sleep").self_ns >= 10 * MS
    assert others.cut


def test_a_watch_that_is_open_at_exit_is_written(laboratory: Laboratory) -> None:
    """The exit hook writes the watch of a daemon thread, cut."""
    laboratory.arm(every=1)

    laboratory.finish("""
ready = threading.Event()
def other():
    session.run("other")
    ready.set()
    time.sleep(60)
threading.Thread(target=other, daemon=True).start()
ready.wait()
time.sleep(0.5)
""")

    (gap,) = laboratory.gaps()
    assert gap.cut
    assert find(gap, "time.sleep").self_ns >= 40 * MS


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "TimeoutError"])
def test_an_exception_of_a_signal_handler_reaches_the_job(
    laboratory: Laboratory, error: str, python: str
) -> None:
    """Even if it is raised while the agent's code runs; recording goes on."""
    laboratory.arm(every=1)

    lines = laboratory.finish(
        f"""
import signal
def handle(*_): raise {error}
signal.signal(signal.SIGALRM, handle)
def nothing(): pass
caught = 0
for _ in range(60):
    try:
        session.run("loss")
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True: nothing()
    except {error}:
        caught += 1
print(caught)
""",
        python=python,
    )

    assert lines == ["60"]
    assert laboratory.counts() == {"loss": 60}
    assert laboratory.errors() == []


def test_a_watch_leaves_nothing_for_the_garbage_collector(laboratory: Laboratory) -> None:
    """A job that has switched the collector off does not grow."""
    laboratory.arm(every=1)

    (collected,) = laboratory.finish("""
import gc
def nothing(): pass
def rounds(count):
    for _ in range(count):
        session.run("loss")
        sorted([2, 1], key=lambda x: x)
        nothing()
rounds(5)
gc.collect()
gc.disable()
rounds(20)
print(gc.collect())
""")

    assert int(collected) < 20


def test_the_cost_of_watches_is_accounted_for(laboratory: Laboratory) -> None:
    """It is in the budget and in the report, like that of traces."""
    laboratory.arm(every=1)

    laboratory.finish("""
def nothing(): pass
for _ in range(3):
    session.run("loss")
    for _ in range(2000): nothing()
session.run("loss")
""")

    samples = laboratory.events(kind="sample")
    traced_ns = sum(event["cost_ns"] for event in samples)
    watched_ns = sum(gap.cost_ns for gap in laboratory.gaps())
    assert watched_ns > 1 * MS
    assert laboratory.steps().header.traced_ns >= traced_ns + watched_ns


def test_a_c_function_is_named_without_running_code_of_the_job(laboratory: Laboratory) -> None:
    """By its module and name; a class of the job may override attribute access."""
    laboratory.arm(every=1)

    (accessed,) = laboratory.finish("""
accessed = []
class Meta(type):
    def __getattribute__(cls, name):
        accessed.append(name)
        return type.__getattribute__(cls, name)
class Rows(list, metaclass=Meta): pass
rows = Rows()
del accessed[:]
session.run("loss")
append = rows.append
append(1); dict.fromkeys("ab"); "".join([])
session.run("loss")
print(accessed)
""")

    assert accessed == "[]"
    assert {"__main__.Rows.append", "builtins.dict.fromkeys", "builtins.str.join"} <= names(
        laboratory.gaps()[0]
    )


def test_a_function_of_the_jobs_file_has_its_path(laboratory: Laboratory, tmp_path: Path) -> None:
    """As the interpreter knows it, so that it can be opened."""
    laboratory.arm(every=1)
    module = tmp_path / "pipeline.py"
    module.write_text("import time\ndef fetch():\n    time.sleep(0.001)\n")

    laboratory.finish(f"""
sys.path.insert(0, {str(tmp_path)!r})
import pipeline
session.run("loss")
pipeline.fetch()
session.run("loss")
""")

    fetch = find(laboratory.gaps()[0], "fetch")
    assert (fetch.file, fetch.line) == (str(module), 2)
