"""What the job throws into the agent arrives in the job, wherever in the agent it lands."""

from __future__ import annotations

import ast
import json
import sys

import pytest

from tests.support.agent import HOOKS, Laboratory

# At each place of the agent that these calls pass, and at which the interpreter may deliver an
# exception, one is thrown once. A function in C that a `for` calls throws it, so that the
# interpreter does not check for exceptions before it is back in the agent.
THROWING = """
import ctypes, dis, functools, json, signal
import tensorflow.python.eager.backprop as backprop
import tensorflow.python.framework.func_graph as func_graph
import tensorflow.python.keras.engine.training as training
import tensorflow.python.training.optimizer as optimizers
import tensorflow.python.training.saver as savers
from tfprobe_agent.activities import activity
import tfprobe_agent
from tfprobe_agent.core import recorder, resource_samples, threads, tracing
from tfprobe_agent.core.guard import STATE

class Stopped(Exception):
    def __init__(self, why="by the job"):
        super().__init__(why)

class Bare(OSError):
    pass

def handler(signum, frame):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    del signum, frame
    raise TimeoutError(110, "by the job")

def from_a_thread(kind):
    throw = ctypes.pythonapi.PyThreadState_SetAsyncExc
    throw.argtypes = ctypes.c_ulong, ctypes.py_object
    return functools.partial(throw, threading.get_ident(), kind), 1, kind

throw, answer, thrown = {
    "signal": lambda: (
        functools.partial(ctypes.CDLL(None)["raise"], signal.SIGUSR1), 0, TimeoutError
    ),
    "class": lambda: from_a_thread(Stopped),
    "subclass": lambda: from_a_thread(Bare),
    "builtin": lambda: from_a_thread(TimeoutError),
    "interrupt": lambda: from_a_thread(KeyboardInterrupt),
}[way]()

AGENT = os.path.dirname(tfprobe_agent.__file__)
ENTRANCES = {
    dis.opmap[name] for name in dis.opmap if name.startswith(("CALL", "RESUME", "JUMP_BACKWARD"))
}
seen, place, throwing = set(), None, None

def tracer(frame, event, arg):
    if frame.f_code.co_filename.startswith(AGENT):
        frame.f_trace_opcodes = True
        return inside

def inside(frame, event, arg):
    global place
    code, at = frame.f_code, frame.f_lasti
    is_new = event == "opcode" and (code, at) not in seen and code.co_code[at] in ENTRANCES
    if place is not None or not is_new:
        return inside
    seen.add((code, at))
    place = code.co_filename[len(AGENT) + 1:], frame.f_lineno, code.co_qualname, at
    sys.settrace(None)
    for _ in throwing:
        pass

hits = []
model, optimizer = training.Model(), optimizers.Optimizer()
step = def_function.Function(hits.append)

def eager():
    with backprop.GradientTape():
        pass
    optimizer.apply_gradients([])

def fit():
    with activity("fit"):
        model.fit()

CALLS = [
    lambda: session.run(lambda: hits.append(1)), lambda: step(1), eager, fit,
    lambda: model.train_on_batch(1), model.compile,
    lambda: savers.Saver().save(session, "model"), lambda: session.make_callable("loss")(),
    lambda: func_graph.func_graph_from_py_func("traced", len, ""),
    lambda: (profiler.start("logs"), profiler.stop()),
]

def loops():
    return recorder.CURRENT.recorder.loops

def unsettled():
    current = threads.THREAD.current
    eager = current.eager_loop and current.eager_loop.collected
    state = {
        "depth": current.depth, "phase": current.phase, "role": current.role,
        "doing": current.doing, "noting": not STATE.noting,
        "disabled": STATE.disabled, "tracing": not STATE.tracing,
        "job_calls": tracing.TRACING.job_calls, "profiler lock": profiler._profiler_lock.locked(),
        "holder": tracing.holder() is not eager,
        "stored": any(loop.words[loop.count_at] != loop.n for loop in loops()),
    }
    return [name for name in state if state[name]]

def steps():
    return sum(loop.n for loop in loops() if loop.name in ("function", "step"))

def traced_steps():
    return sum(loop.traced_steps for loop in loops())

problems, landed = [], 0
for call in CALLS:
    call()
    while True:
        if way == "signal":
            signal.signal(signal.SIGUSR1, handler)
        place, throwing, delivered = None, iter(throw, answer), False
        hit, counted = len(hits), steps()
        resource_samples.RESOURCE_SAMPLES.next_ns = 0
        try:
            sys.settrace(tracer)
            call()
            sys.settrace(None)
        except thrown:
            delivered = True
        sys.settrace(None)
        if place is None:
            break
        landed += 1
        wrong = unsettled()
        if not delivered:
            wrong.append("swallowed")
        if steps() - counted not in ((1,) if len(hits) > hit else (0, 1)):
            wrong.append("counted %d" % (steps() - counted))
        if wrong:
            problems.append([wrong, place])
            threads.THREAD.current = threads.ThreadState()
            tracing.reset()
            STATE.disabled, STATE.tracing, STATE.noting = False, True, True
before = steps(), traced_steps()
for _ in range(4):
    for call in CALLS[:2]:
        call()
after = steps(), traced_steps()
print(json.dumps([landed, problems, after[0] - before[0], after[1] > before[1]]))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="co_qualname, and where exceptions arrive")
@pytest.mark.parametrize("way", ["signal", "class", "subclass", "builtin", "interrupt"])
def test_an_exception_of_the_job_arrives_and_recording_goes_on(laboratory: Laboratory, way) -> None:
    """By a handler that resets itself, and from another thread; state and counts are right then."""
    laboratory.arm(every=2)

    (line,) = laboratory.finish(f"way = {way!r}\n{THROWING}")

    landed, problems, steps, traced = json.loads(line)
    assert problems == []
    assert landed > 300
    assert (steps, traced) == (8, True)
    assert laboratory.errors() == []


def test_an_exception_that_tensorflow_replaces_still_arrives(laboratory: Laboratory) -> None:
    """Called code replaces the job's exception by its own: the job gets what it threw."""
    laboratory.arm(every=1)

    lines = laboratory.finish("""
import signal
def handler(number, frame): raise TimeoutError("theirs")
signal.signal(signal.SIGALRM, handler)
def as_graph_def(add_shapes):
    try:
        signal.raise_signal(signal.SIGALRM)
    except Exception as error:
        raise ValueError("no graph") from error
original, session.graph.as_graph_def = session.graph.as_graph_def, as_graph_def
try:
    session.run("loss")
except TimeoutError as error:
    print(error, error.__cause__, error.__context__)
session.graph.as_graph_def = original
session.run("loss")
""")

    assert lines == ["theirs None None"]
    assert laboratory.errors() == []


def test_an_exception_that_the_job_is_handling_is_not_thrown_again(laboratory: Laboratory) -> None:
    """An error of the agent in an `except` of the job is the agent's."""
    laboratory.arm(every=1)

    lines = laboratory.finish("""
import signal
from tfprobe_agent.frameworks.tensorflow import graphs
def broken(*args): raise RuntimeError("planted")
def handler(number, frame): raise TimeoutError("theirs")
signal.signal(signal.SIGALRM, handler)
graphs.write_session_graph = broken
for error in (KeyboardInterrupt, None):
    try:
        if error is not None: raise error
        signal.raise_signal(signal.SIGALRM)
    except BaseException:
        print(session.run("loss"))
""")

    assert lines == ["ran loss", "ran loss"]
    (error,) = laboratory.events(kind="error")
    assert error["what"] == "RuntimeError: planted"


def test_every_except_of_the_agent_lets_exceptions_of_the_job_through() -> None:
    """Each first decides whose exception it is, or raises it again."""
    silent = []
    for source in sorted(HOOKS.rglob("tfprobe_agent/**/*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            handlers = [node] if isinstance(node, ast.ExceptHandler) else []
            silent += [
                f"{source.name}:{handler.lineno}" for handler in handlers if not _decides(handler)
            ]

    # A module that is missing; and the code that decides, when there is no memory to do so.
    expected = {"boot.py": 1, "gaps.py": 1, "interruptions.py": 1, "resource_samples.py": 1}
    assert {name: sum(place.startswith(name) for place in silent) for name in expected} == expected
    assert len(silent) == 4, silent


def _decides(handler: ast.ExceptHandler) -> bool:
    if any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
        return True
    called = {
        node.func.id
        for node in ast.walk(handler)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return not called.isdisjoint({"let_through", "import_and_let_through", "failed"})


@pytest.mark.parametrize("name", ["event_ns", "calls.make_profile_function"])
def test_a_watch_that_is_interrupted_as_it_begins_is_dropped(laboratory: Laboratory, name) -> None:
    """The next step ends what there is of it; no error of the agent follows."""
    laboratory.arm(every=1)
    # The cost of an event is measured once, as the first watch begins.
    first = "" if name == "event_ns" else 'session.run("loss")'

    lines = laboratory.finish(f"""
import signal
from tfprobe_agent.core import calls, gaps
def handler(number, frame): raise TimeoutError("theirs")
signal.signal(signal.SIGALRM, handler)
{first}
holder = calls if "." in {name!r} else gaps
attribute = {name!r}.split(".")[-1]
original = getattr(holder, attribute)
def interrupted(*args):
    setattr(holder, attribute, original)
    signal.raise_signal(signal.SIGALRM)
    return original(*args)
setattr(holder, attribute, interrupted)
for _ in range(4):
    try:
        session.run("loss")
    except TimeoutError as error:
        print(error)
print(sys.getprofile() is not None)
""")

    assert lines == ["theirs", "True"]
    assert laboratory.counts() == {"loss": 4 + bool(first)}
    assert laboratory.errors() == []


@pytest.mark.parametrize("kind", ["function", "object", "method", "static", "partial", "frame"])
def test_a_handler_may_assign_to_its_arguments(laboratory: Laboratory, kind) -> None:
    """`number = signal.Signals(number)` is usual; its exception is still the job's."""
    laboratory.arm(every=1)

    lines = laboratory.finish(f"""
import functools, signal
def function(number, frame):
    number = frame = signal.Signals(number)
    raise TimeoutError(number.name)
def resets_itself(number, frame):
    number = signal.signal(number, signal.SIG_IGN)
    raise TimeoutError("SIGALRM")
class Handler:
    def __call__(self, number, frame): number = frame = None; raise TimeoutError("SIGALRM")
    def method(self, number, frame): number = frame = None; raise TimeoutError("SIGALRM")
    @staticmethod
    def static(number, frame): number = frame = None; raise TimeoutError("SIGALRM")
def with_more(more, number, frame): number = frame = None; raise TimeoutError("SIGALRM")
handler = {{
    "function": function, "object": Handler(), "method": Handler().method, "static": Handler.static,
    "partial": functools.partial(with_more, 1), "frame": resets_itself,
}}[{kind!r}]
signal.signal(signal.SIGALRM, handler)
def as_graph_def(add_shapes):
    signal.raise_signal(signal.SIGALRM)
original, session.graph.as_graph_def = session.graph.as_graph_def, as_graph_def
try:
    session.run("loss")
except TimeoutError as error:
    print(error)
session.graph.as_graph_def = original
session.run("loss")
""")

    assert lines == ["SIGALRM"]
    assert laboratory.errors() == []
