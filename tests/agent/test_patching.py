"""A patched method cannot be told from the original by anything a job inspects."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.agent import HOOKS, Laboratory, load
from tests.support.interpreters import python_path

patching = load("patching")

# Runs under any Python from 3.6 on: prints what a job can see of a class, unpatched and patched.
LOOK = """
import copy, functools, inspect, json, pickle, sys
sys.path.append(%(hooks)r)
from tfprobe_agent import patching
from tfprobe_agent.core import step_wrapper

def same(original):
    def call(self, *args, **kwargs):
        return original(self, *args, **kwargs)
    return call

class Model(object):
    def __init__(self, name="m"):
        self.name = name
    def __eq__(self, other):
        return self.name == other.name
    __hash__ = None
    def __call__(self, x):
        return x
    def fit(self, x, y=None, *rest, epochs: int = 1, **more) -> list:
        "Train."
        return [self.name, x, y, rest, epochs, sorted(more)]
    fit.mark = "theirs"

class Child(Model):
    def fit(self, x, *args, **kwargs):
        return ["child"] + super().fit(x, *args, **kwargs)

if %(how)r == "method":
    patching.patch_method(Model, "fit", same)
    once = Model.__dict__["fit"]
    patching.patch_method(Model, "fit", same)
elif %(how)r == "step wrapper":
    make = step_wrapper.make(lambda *_: None, None)
    patching.patch_method(Model, "fit", make)
    once = Model.__dict__["fit"]
    patching.patch_method(Model, "fit", make)
else:
    once = Model.__dict__["fit"]
assert Model.__dict__["fit"] is once

model, child = Model(), Child("c")
bound = model.fit
seen = {
    "calls": [bound(1), model.fit(1, 2, 3, epochs=4, z=5), Model.fit(model, 1), child.fit(2)],
    "names": [bound.__name__, bound.__qualname__, bound.__module__, bound.__doc__, bound.mark],
    "self": [bound.__self__ is model, bound.__func__ is not None, bound == model.fit],
    "signature": [str(inspect.signature(f)) for f in (bound, Model.fit, child.fit)],
    "spec": [str(inspect.getfullargspec(f)) for f in (bound, Model.fit)],
    "annotations": str(Model.fit.__annotations__),
    "types": [type(f).__name__ for f in (bound, bound.__func__, Model.fit)],
    "kinds": [inspect.ismethod(bound), callable(bound), inspect.isroutine(Model.fit)],
    "source": inspect.unwrap(Model.fit).__code__.co_name,
    "hash": hash(child.fit.__func__) is not None,
    "partial": functools.partial(model.fit, 1)(y=2),
}
for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
    again = pickle.loads(pickle.dumps([bound, child.fit, Model.fit], protocol))
    seen["pickle %%d" %% protocol] = [again[0](1), again[1](1), again[2](model, 1)]
    seen["pickled types %%d" %% protocol] = [type(f).__name__ for f in again]
    seen["pickled self %%d" %% protocol] = again[0].__self__ is not model
shallow, deep = copy.copy(bound), copy.deepcopy(bound)
seen["copied types"] = [type(f).__name__ for f in (shallow, deep)]
seen["copies"] = [shallow(1), deep(1), shallow.__self__ is model, deep.__self__ is model]
seen["copied function"] = copy.deepcopy(Model.fit) is Model.__dict__["fit"]
pair = copy.deepcopy([model, model.fit])
seen["memo"] = pair[1].__self__ is pair[0]
try:
    model.fit()
except TypeError as error:
    seen["refusal"] = str(error).replace("Model.", "")
print(json.dumps(seen, sort_keys=True))
"""


def look(python: str | Path, folder: Path, how: str) -> dict[str, object]:
    """Return what a job sees of a class, unpatched or patched by `how`."""
    script = folder / "look.py"
    script.write_text(LOOK % {"hooks": str(HOOKS), "how": how})
    ended = subprocess.run(
        [str(python), "-B", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert ended.returncode == 0, ended.stderr
    seen: dict[str, object] = json.loads(ended.stdout)
    return seen


@pytest.mark.parametrize("how", ["step wrapper", "method"])
def test_a_patched_method_looks_like_the_original(tmp_path: Path, python, how) -> None:
    """Name, type, signature, pickle, copies, calls through instance, class and super."""
    bare = look(python, tmp_path, "bare")

    assert look(python, tmp_path, how) == bare


@pytest.fixture(params=["3.6", "3.13", "this"])
def python(request: pytest.FixtureRequest) -> str:
    """The oldest Python, the newest, and the one that runs the tests."""
    return python_path(request.param)


def test_only_plain_methods_are_patched() -> None:
    """Not static and class methods, properties, and methods that a class only inherits."""

    class Parent:
        def inherited(self) -> None: ...

    class Odd(Parent):
        @staticmethod
        def static() -> None: ...

        @classmethod
        def of_class(cls) -> None: ...

        @property
        def value(self) -> int:
            return 1

    before = dict(vars(Odd))
    for name in ("static", "of_class", "value", "inherited", "absent"):
        patching.patch_method(Odd, name, None)

    assert dict(vars(Odd)) == before


def test_a_function_is_patched_once() -> None:
    """A module may be imported again and trigger the patch again."""
    import types

    module = types.ModuleType("profiler")
    calls: list[str] = []
    module.start = lambda: "started"  # type: ignore[attr-defined]

    def around(original):
        def call():
            calls.append("ours")
            return original()

        return call

    for _ in range(3):
        patching.patch_call(module, "start", around)
        patching.patch_call(module, "absent", around)

    assert (module.start(), calls) == ("started", ["ours"])


def test_super_calls_and_unbound_calls_are_one_step_each(laboratory: Laboratory) -> None:
    """A subclass that overrides a wrapped method and calls super; BaseSession.run(session)."""
    laboratory.arm(trace_level="off")

    laboratory.finish("""
class Mine(session_module.BaseSession):
    def run(self, fetches, *args, **kwargs):
        return super().run(fetches, *args, **kwargs)
class Twice(Mine):
    def run(self, fetches, *args, **kwargs):
        return super().run(lambda: super(Mine, self).run(fetches), *args, **kwargs)
mine = Mine()
for _ in range(5): mine.run("loss")
for _ in range(3): session_module.BaseSession.run(mine, "unbound")
for _ in range(2): session_module.BaseSession.run(session, fetches="named")
Twice().run("inner")
""")

    counts = laboratory.counts()
    assert counts == {"loss": 5, "unbound": 3, "named": 2, "function": 1}


def test_a_step_inside_a_step_is_not_a_step(laboratory: Laboratory) -> None:
    """The outermost call counts; another thread has a depth of its own."""
    laboratory.arm(trace_level="off")

    laboratory.finish("""
inner = def_function.Function(name="inner")
def in_thread():
    thread = threading.Thread(target=inner, args=(1,), name="worker")
    thread.start()
    thread.join()
outer = def_function.Function(lambda value: [inner(1), session.run("loss")], name="outer")
threaded = def_function.Function(lambda value: in_thread(), name="threaded")
for _ in range(4): outer(1)
for _ in range(3): threaded(1)
""")

    assert laboratory.counts() == {"outer": 4, "threaded": 3, "inner": 3}
    assert {w.thread for w in laboratory.steps().loops if w.name == "inner"} == {"worker"}


FAILING = """
import json, traceback
import tensorflow.python.eager.backprop as backprop
import tensorflow.python.framework.func_graph as func_graph
import tensorflow.python.keras.engine.training as training
import tensorflow.python.training.optimizer as optimizers
import tensorflow.python.training.saver as savers
from tfprobe_agent.activities import activity

class Theirs(Exception): pass
cause, context = KeyError("cause"), KeyError("context")

def fail(*_):
    # frames of the agent between this one and the job's call
    frame, ours = sys._getframe(1), 0
    while frame is not None and frame.f_code is not attempt.__code__:
        ours += "tfprobe_agent" in frame.f_code.co_filename
        frame = frame.f_back
    frames.append(ours)
    try:
        raise context
    except KeyError:
        raise Theirs from cause

model, optimizer = training.Model(), optimizers.Optimizer()
model.make_train_function = lambda: fail
inner = def_function.Function(fail)
frames, seen = [], []
class Unreadable:
    __iter__ = fail
CALLS = {
    "run": lambda: session.run(fail), "function": lambda: def_function.Function(fail)(1),
    "inside": lambda: session.run(lambda: inner(1)), "fit": lambda: model.fit(),
    "callable": lambda: session.make_callable(fail)(),
    "trace": lambda: func_graph.func_graph_from_py_func("traced", fail),
    "activity": lambda: activity("mine")(fail)(),
}

def attempt(call):
    try:
        call()
    except Theirs as error:
        return error

for _ in range(3):
    for name, call in CALLS.items():
        del frames[:]
        error = attempt(call)
        files = [entry.filename for entry in traceback.extract_tb(error.__traceback__)]
        seen.append([
            name, frames, ["tfprobe_agent" in file for file in files].count(True),
            error.__cause__ is cause, error.__context__ is context, error.__suppress_context__,
        ])
        print(json.dumps(seen[-1]))
"""


def test_an_error_of_the_job_has_no_frame_of_the_agent(laboratory: Laboratory, python) -> None:
    """Traced or not; each wrapped call has one frame on the stack, and causes are unchanged."""
    laboratory.arm(every=2)

    lines = [json.loads(line) for line in laboratory.finish(FAILING, python=python)]

    calls = {"run": 1, "function": 1, "inside": 2, "fit": 1, "callable": 2, "trace": 1}
    shown = 0 if python_version(python) >= (3, 11) else None
    for name, frames, in_traceback, *chain in lines:
        # The activity is a decorator that the job uses itself.
        assert frames == [calls.get(name, 1)]
        assert in_traceback == (frames[0] if shown is None else shown), name
        assert chain == [True, True, True]
    assert len(lines) == 21


def python_version(python: str) -> tuple[int, ...]:
    """Return the version of an interpreter."""
    code = "import sys; print(*sys.version_info[:2])"
    ended = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return tuple(map(int, ended.stdout.split()))
