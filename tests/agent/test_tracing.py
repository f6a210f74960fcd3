"""There is one profiler in a process: the job's own calls win, and nobody waits for ever."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pytest

from tests.support.agent import Laboratory, load

tracing = load("core.tracing")
framework = load("core.framework")
session_wrappers = load("frameworks.tensorflow.session")
profiler = load("frameworks.tensorflow.profiler")

# Two steps that are to be traced.
STEP, OTHER = SimpleNamespace(name="step"), SimpleNamespace(name="other")
# A profiler call of the job.
CALL = object()


class Window:
    """An open window of the agent that knows whether it was closed."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.is_open = is_open

    def surrender(self) -> bool:
        was_open, self.is_open = self.is_open, False
        return was_open


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch):
    """No profiler session, and no variable that indicates one."""
    for name in ("TF_DISABLE_PROFILING", *load("config")._FOREIGN_PROFILER_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tracing, "USER_WAIT_S", 0.05)
    tracing.reset()
    yield
    tracing.reset()


def test_one_step_is_traced_at_a_time() -> None:
    """The second of two threads declines; after the first has ended, it may."""
    assert tracing.take_full(STEP)
    assert not tracing.take_full(OTHER)

    tracing.give_back(OTHER)
    assert not tracing.take_full(OTHER)
    tracing.give_back(STEP)

    assert tracing.take_full(OTHER)


@pytest.mark.parametrize(
    "name",
    [
        "TF_DISABLE_PROFILING",
        "NSYS_PROFILING_SESSION_ID",
        "NV_NSIGHT_INJECTION_PORT_BASE",
        "CUDA_INJECTION64_PATH",
    ],
)
def test_no_full_trace_with_another_profiler(monkeypatch, name) -> None:
    """A full trace would raise after the step has run, or take CUPTI from the other."""
    monkeypatch.setenv(name, "1")

    assert not tracing.take_full(STEP)
    assert tracing.holder() is None


def test_no_full_trace_while_the_job_profiles(monkeypatch) -> None:
    """While its call is running, while its session is open, and while it serves captures."""
    tracing.job_begins(CALL)
    assert not tracing.take_full(STEP)
    tracing.TRACING.job_calls.discard(CALL)
    assert tracing.take_full(STEP)
    tracing.give_back(STEP)

    module = SimpleNamespace(_profiler=object())
    framework.load("tensorflow")
    monkeypatch.setitem(sys.modules, "tensorflow.python.profiler.profiler_v2", module)
    assert not tracing.take_full(STEP)
    module._profiler = None
    tracing.TRACING.job_server = True
    assert not tracing.take_full(STEP)
    assert tracing.holder() is None


def test_an_open_window_is_given_up_at_once() -> None:
    """The lock stays with the step that opened it; the job's call does not wait for that."""
    assert tracing.take(STEP)
    tracing.TRACING.window = window = Window()

    tracing.job_begins(CALL)

    assert not window.is_open
    assert tracing.holder() is STEP


def test_the_job_waits_for_a_traced_step_to_end(monkeypatch) -> None:
    """A session that TensorFlow opened inside a traced step ends with the step."""
    monkeypatch.setattr(tracing, "USER_WAIT_S", 5.0)
    assert tracing.take_full(STEP)
    ended = threading.Timer(0.05, tracing.give_back, [STEP])
    ended.start()

    tracing.job_begins(CALL)

    ended.join()
    assert tracing.holder() is None
    assert not tracing.take_full(STEP)
    tracing.TRACING.job_calls.discard(CALL)
    assert tracing.take_full(STEP)


def test_a_profiler_started_inside_a_traced_step_does_not_wait_for_ever() -> None:
    """The step may be waiting for that very call; then TensorFlow gives its own answer."""
    assert tracing.take_full(STEP)

    tracing.job_begins(CALL)

    assert tracing.holder() is STEP
    tracing.TRACING.job_calls.discard(CALL)
    tracing.give_back(STEP)


def test_a_step_that_cannot_be_traced_gives_the_profiler_back(state, monkeypatch) -> None:
    """TensorFlow refuses bad options itself, and later steps can still be traced."""
    written = SimpleNamespace(runs_python=False, fingerprint="f")
    recorder = SimpleNamespace(config=SimpleNamespace(trace_level="full"))
    monkeypatch.setattr(session_wrappers, "current_recorder", lambda: recorder)
    monkeypatch.setattr(session_wrappers.graphs, "write_session_graph", lambda *_: written)

    class Options:
        FULL_TRACE = 3

        def CopyFrom(self, other: object) -> None:  # noqa: N802 - the name in protobuf
            raise TypeError("not RunOptions")

    protos = SimpleNamespace(RunOptions=Options, RunMetadata=object)
    module = SimpleNamespace(config_pb2=protos)
    wrappers = session_wrappers._SessionWrappers(module, None)
    session, loop = SimpleNamespace(graph=None), SimpleNamespace(traced_steps=1)
    debug_options = SimpleNamespace(debug_tensor_watch_opts=())
    bogus = SimpleNamespace(trace_level=0, debug_options=debug_options)
    with pytest.raises(TypeError):
        wrappers.trace_run(loop, "every", session, None, ("loss", None, bogus), {})

    assert tracing.holder() is None


JOB = """
step = def_function.Function(lambda value: profiler.start("logs") if value == 7 else value)
answers = [step(value) for value in range(12)]
profiler.stop()
answers += [step(value) for value in range(3)]
print(answers[7], len(answers))
"""


def test_a_profiler_started_inside_a_window_wins(laboratory: Laboratory) -> None:
    """Neither this step nor those while the job profiles are traced; later ones are."""
    laboratory.arm(every=1)

    lines = laboratory.finish(JOB)

    assert lines == ["started 15"]
    events = laboratory.events()
    taken = [event["step"] for event in events if event["event"] == "sample"]
    assert taken == [*range(7), 12, 13, 14]
    assert laboratory.counts() == {"step": 15}
    assert not list(laboratory.run.glob("*/*/captures/.tmp-*"))
    assert {event["event"] for event in events}.isdisjoint({"error", "aside"})
    (started,) = (event for event in events if event["event"] == "profiling")
    assert started["line"] > 0


def test_a_profiler_started_inside_a_traced_run_is_answered(laboratory: Laboratory) -> None:
    """From the step itself and from a thread that the step waits for: later, but answered."""
    laboratory.arm(every=1)

    lines = laboratory.finish("""
from tfprobe_agent.core import tracing
tracing.USER_WAIT_S = 0.05
def ask():
    answers.append(profiler.start("logs"))
    profiler.stop()
def from_a_thread():
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
answers = []
for _ in range(3): session.run(ask)
for _ in range(3): session.run(from_a_thread)
print(answers)
""")

    assert lines == [str(["started"] * 6)]
    assert sum(laboratory.counts().values()) == 6


def test_four_threads_trace_without_an_error(laboratory: Laboratory) -> None:
    """Every step of all of them is counted; those that cannot be traced are not."""
    laboratory.arm(every=1)

    laboratory.finish("""
step = def_function.Function()
def body():
    for _ in range(50):
        session.run("loss")
        step(1)
threads = [threading.Thread(target=body) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")

    assert laboratory.counts() == {"loss": 200, "step": 200}
    assert laboratory.errors() == []
    samples = laboratory.events(kind="sample")
    assert len({event["capture"] for event in samples}) == len(samples)


def test_a_window_left_open_is_closed_at_exit(laboratory: Laboratory) -> None:
    """An eager step that never ended; TensorFlow's profiler should not outlive the job's code."""
    laboratory.arm(trace_level="off")

    lines = laboratory.finish("""
from tfprobe_agent.core import tracing
class Window:
    def surrender(self): print("closed")
session.run("loss")
tracing.TRACING.window = Window()
""")

    assert lines == ["closed"]
    assert laboratory.counts() == {"loss": 1}


@pytest.mark.parametrize(
    ("version", "cluster", "crashes"),
    [
        ("2.16.2", "_collective_ops_server_def", False),
        ("2.17.0", "_collective_ops_server_def", True),
        ("2.21.0", "_server_def", True),
        ("unheard of", "_server_def", True),
        ("2.21.0", None, False),
    ],
)
def test_no_window_where_it_could_crash_the_job(monkeypatch, version, cluster, crashes) -> None:
    """From TensorFlow 2.17 on, a profiled process of a cluster may die; any other does not."""
    context = SimpleNamespace(_server_def=None, _collective_ops_server_def=None)
    if cluster is not None:
        setattr(context, cluster, object())
    module = SimpleNamespace(_context=context)
    monkeypatch.setitem(profiler.sys.modules, "tensorflow.python.eager.context", module)
    monkeypatch.setattr(profiler, "tensorflow_version", lambda: version)

    assert profiler._crashes_here() is crashes


def test_the_window_of_another_framework_is_left_alone() -> None:
    """TensorFlow takes the profiler from a window of its own that nothing may end."""
    other = tracing.Window(None, (), {})
    assert tracing.take(other)
    tracing.TRACING.window = other

    assert not profiler.Window(None, None, None, None)._reclaims()
    assert tracing.holder() is other
