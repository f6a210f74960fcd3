"""What happens when the agent fails, or when the job interrupts it."""

from __future__ import annotations

import pytest

from tests.support.agent import Laboratory
from tfprobe.runs.process_folder.steps_layout import AgentState

BREAK = """
class Broken(Exception): pass
def broken(*args, **kwargs): raise Broken("planted")
"""


def test_an_error_in_the_agent_disables_it(laboratory: Laboratory) -> None:
    """The job gets its answers; earlier counts stay, and the error is in agent.log."""
    laboratory.arm(trace_level="off")

    lines = laboratory.finish(
        BREAK
        + """
from tfprobe_agent.core.steps_file import StepsFile
answers = [session.run("loss") for _ in range(5)]
StepsFile.add_loop = broken
answers.append(session.run("other"))
answers += [session.run("loss") for _ in range(5)]
print(*sorted(set(answers)), sep=', ')
"""
    )

    assert lines == ["ran loss, ran other"]
    assert laboratory.counts() == {"loss": 5}
    assert laboratory.steps().header.state is AgentState.STEPPED_ASIDE
    (folder,) = laboratory.folders()
    assert "Broken: planted" in (folder / "agent.log").read_text()
    kinds = [event["event"] for event in laboratory.events()]
    assert kinds[-2:] == ["error", "aside"]


@pytest.mark.parametrize("where", ["graphs.write_session_graph", "graphs.write_code_maps"])
def test_an_error_while_tracing_leaves_the_counts(laboratory: Laboratory, where) -> None:
    """Before the step and after it: no more traces, all steps."""
    laboratory.arm(every=2)
    module, function = where.split(".")

    laboratory.finish(
        BREAK
        + f"""
from tfprobe_agent.frameworks.tensorflow import {module}
{module}.{function} = broken
for _ in range(50): assert session.run("loss") == "ran loss"
"""
    )

    assert laboratory.counts() == {"loss": 50}
    assert laboratory.steps().header.state is AgentState.FINISHED
    assert [e["where"] for e in laboratory.events(kind="error")] != []


HANDLERS = {
    "function": "handler = raising",
    "bound method": """
class Alarm:
    def ring(self, number, frame): raising(number, frame)
handler = Alarm().ring
""",
    "partial": """
import functools
handler = functools.partial(raising)
""",
    "object": """
class Alarm:
    def __call__(self, number, frame): raise TimeoutError("theirs")
handler = Alarm()
""",
}
MOMENTS = {
    "before a step": "recorder.Recorder, 'add_loop'",
    "starting a sample": "graphs, 'write_session_graph'",
    "finishing a sample": "process_dir.ProcessDir, 'write_file'",
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("handler", HANDLERS)
def test_a_time_out_of_the_job_reaches_the_job(laboratory: Laboratory, handler, moment) -> None:
    """SIGALRM arrives while the agent's code runs: its exception goes to the job, and recording
    goes on.
    """
    laboratory.arm(every=1)

    lines = laboratory.finish(f"""
import signal
from tfprobe_agent.core import process_dir, recorder
from tfprobe_agent.frameworks.tensorflow import graphs
def raising(number, frame): raise TimeoutError("theirs")
{HANDLERS[handler]}
signal.signal(signal.SIGALRM, handler)
owner, name = {MOMENTS[moment]}
original = getattr(owner, name)
def interrupted(*args):
    setattr(owner, name, original)
    os.kill(os.getpid(), signal.SIGALRM)
    for _ in range(1000): pass
    return original(*args)
setattr(owner, name, interrupted)
try:
    session.run("loss")
except TimeoutError as error:
    print(error)
for _ in range(5): session.run("loss")
""")

    assert lines == ["theirs"]
    assert laboratory.counts()["loss"] in (5, 6)
    assert laboratory.errors() == []


def test_an_error_of_the_agent_in_a_job_with_a_handler_is_the_agents(
    laboratory: Laboratory,
) -> None:
    """Such a job gets no errors that its handler did not raise."""
    laboratory.arm(trace_level="off")

    laboratory.finish(
        BREAK
        + """
import signal
from tfprobe_agent.core.steps_file import StepsFile
signal.signal(signal.SIGALRM, broken)
StepsFile.add_loop = lambda *args: 1 / 0
session.run("loss")
"""
    )

    assert laboratory.steps().header.state is AgentState.STEPPED_ASIDE


def test_an_interrupted_step_is_counted_as_raised(laboratory: Laboratory) -> None:
    """Ctrl-C inside a step goes to the job; the steps after it are counted as before."""
    laboratory.arm(every=2)

    laboratory.finish("""
def interrupt(): raise KeyboardInterrupt
for fetch in (lambda: 1, interrupt, lambda: 1, interrupt, lambda: 1):
    try:
        session.run(fetch)
    except KeyboardInterrupt:
        pass
""")

    (loop,) = laboratory.steps().loops
    assert (loop.executed, loop.raised, loop.count) == (5, 2, 3)


def test_steps_keep_no_object_of_the_job_alive(laboratory: Laboratory) -> None:
    """Sessions, graphs, functions and their results are freed when the job drops them."""
    laboratory.arm(every=1)

    lines = laboratory.finish("""
import gc, weakref
import tensorflow.python.keras.engine.training as training
import tensorflow.python.training.optimizer as optimizers
gc.disable()
class Array:
    graph, name = None, "array"
def use():
    mine = session_module.BaseSession()
    array, step, model = Array(), def_function.Function(), training.Model()
    optimizer = optimizers.Optimizer()
    fetch = Array()
    mine.make_callable("loss")()
    mine.run("loss", {"x": array})
    mine.run(lambda: array)
    mine.run([lambda: 1, fetch] and "loss")
    step(1)
    optimizer.apply_gradients([array])
    optimizer.apply_gradients([array])
    model.train_on_batch(array)
    step.__call__(2)
    return [weakref.ref(o) for o in (mine, mine.graph, array, step, model, optimizer)]
print([reference() is None for reference in use()])
""")

    assert lines == [str([True] * 6)]


def test_a_long_job_does_not_grow(laboratory: Laboratory) -> None:
    """New sessions, functions and models at every step: 20,000 of them leave nothing behind."""
    laboratory.arm(trace_level="off")

    (grown_kb,) = laboratory.finish("""
import resource
def rounds(count):
    for _ in range(count):
        session_module.BaseSession().run("loss")
        session.run(lambda: 1)
        def_function.Function()(1)
        session.run("%s" % "loss")
rounds(5000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rounds(15000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")

    assert int(grown_kb) < 1500
