"""A patched method is told from the original by nothing a job looks at."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.agent import HOOKS, Laboratory, load
from tests.support.interpreters import need_interpreter

patching = load("patching")
door = load("door")

# Runs under any Python from 3.6 on: prints what a job can see of a class, bare and patched.
LOOK = """
import copy, functools, inspect, json, pickle, sys
sys.path.append(%(hooks)r)
if %(use_wrapt)r:
    import wrapt
from tfprobe_agent import door, patching

def same(wrapped, instance, args, kwargs):
    return wrapped(*args, **kwargs)

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
elif %(how)r == "door":
    make = door.make(lambda *_: None, None)
    patching.patch_door(Model, "fit", make)
    once = Model.__dict__["fit"]
    patching.patch_door(Model, "fit", make)
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
    "kinds": [inspect.ismethod(bound), callable(bound), inspect.isroutine(Model.fit)],
    "source": inspect.unwrap(Model.fit).__code__.co_name,
    "hash": hash(child.fit.__func__) is not None,
    "partial": functools.partial(model.fit, 1)(y=2),
}
for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
    again = pickle.loads(pickle.dumps([bound, child.fit, Model.fit], protocol))
    seen["pickle %%d" %% protocol] = [again[0](1), again[1](1), again[2](model, 1)]
    seen["pickled self %%d" %% protocol] = again[0].__self__ is not model
shallow, deep = copy.copy(bound), copy.deepcopy(bound)
seen["copies"] = [shallow(1), deep(1), shallow.__self__ is model, deep.__self__ is model]
seen["copied function"] = copy.deepcopy(Model.fit) is Model.__dict__["fit"] or %(how)r == "method"
pair = copy.deepcopy([model, model.fit])
seen["memo"] = pair[1].__self__ is pair[0]
try:
    model.fit()
except TypeError as error:
    seen["refusal"] = str(error).replace("Model.", "")
print(json.dumps(seen, sort_keys=True))
"""


def look(python: str | Path, folder: Path, how: str, *, use_wrapt: bool) -> dict[str, object]:
    """Return what a job sees of a class, bare or patched by `how`."""
    script = folder / "look.py"
    script.write_text(LOOK % {"hooks": str(HOOKS), "how": how, "use_wrapt": use_wrapt})
    ended = subprocess.run(
        [str(python), "-B", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


@pytest.mark.parametrize("how", ["door", "method"])
def test_a_patched_method_looks_like_the_original(tmp_path: Path, python, how) -> None:
    """Name, signature, pickle, copies, calls through instance, class and super; without wrapt."""
    bare = look(python, tmp_path, "bare", use_wrapt=False)

    assert look(python, tmp_path, how, use_wrapt=False) == bare


@pytest.fixture(params=["3.6", "3.13", "this"])
def python(request: pytest.FixtureRequest) -> str:
    """The oldest Python, the newest, and the one that runs the tests."""
    import sys

    if request.param == "this":
        return sys.executable
    return str(need_interpreter(request.param))


def test_what_is_not_a_plain_method_is_left_alone() -> None:
    """Static and class methods, properties, and what a class only inherits."""

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
        patching.patch_door(Odd, name, None)

    assert dict(vars(Odd)) == before


def test_a_function_is_patched_once() -> None:
    """A module may be imported again and fire again."""
    import types

    module = types.ModuleType("profiler")
    calls: list[str] = []
    module.start = lambda: "started"  # type: ignore[attr-defined]

    def wrapper(wrapped, instance, args, kwargs):
        calls.append("ours")
        return wrapped(*args, **kwargs)

    for _ in range(3):
        patching.patch_function(module, "start", wrapper)
        patching.patch_function(module, "absent", wrapper)

    assert (module.start(), calls) == ("started", ["ours"])


def test_super_calls_and_unbound_calls_are_one_step_each(laboratory: Laboratory) -> None:
    """A subclass that overrides a door method and calls its parent's; BaseSession.run(session)."""
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
    assert {w.thread for w in laboratory.steps().works if w.name == "inner"} == {"worker"}
