"""Ask compiled functions what they are, copy and pickle them; print what each answer is."""

import copy
import functools
import gc
import inspect
import json
import pickle
import sys
import types
import weakref

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np

COUNTS = {}


def show(name, value):
    print(name, np.asarray(value).tobytes().hex())


def ran(name, times=1):
    COUNTS[name] = COUNTS.get(name, 0) + times


def without_addresses(text):
    return text.replace("\n", " ").split(" at 0x")[0]


def attempt(name, act):
    try:
        print(name, act())
    except Exception as error:
        print(name, type(error).__name__, without_addresses(str(error)))


@jax.jit
def step(x):
    """Twice x."""
    return 2 * x


@functools.partial(jax.jit, static_argnames="times")
def static(x, times=3):
    return x * times


class Model:
    @staticmethod
    @jax.jit
    def double(x):
        return 2 * x

    @functools.partial(jax.jit, static_argnums=0)
    def method(self, x):
        return 3 * x

    @classmethod
    @functools.partial(jax.jit, static_argnums=0)
    def of_class(cls, x):
        return 5 * x

    plain = staticmethod(jax.jit(lambda x: 7 * x))


@jax.grad
def slope(x):
    """The slope of the sum of squares."""
    return jnp.sum(x**2)


x = jnp.arange(4.0)
parallel = jax.pmap(lambda x: x + 1)
compiled = step.lower(x).compile()

for name, function in {
    "step": step,
    "static": static,
    "method": Model.method,
    "bound": Model().method,
    "parallel": parallel,
    "compiled": compiled,
    "slope": slope,
    "value and slope": jax.value_and_grad(lambda x, y=1: x.sum() * y, argnums=0),
}.items():
    print(name, str(type(function)), str(function.__class__), without_addresses(repr(function)))
    print(name, "callable", callable(function), isinstance(function, jax.stages.Wrapped))
    print(name, "function", inspect.isfunction(function), inspect.ismethod(function))
    print(name, inspect.isroutine(function), isinstance(function, types.FunctionType))
    attempt(name + " signature", lambda function=function: inspect.signature(function))
    attempt(
        name + " own signature",
        lambda function=function: inspect.signature(function, follow_wrapped=False),
    )
    attempt(name + " source", lambda function=function: len(inspect.getsource(function)))
    attempt(name + " dir", lambda function=function: sorted(dir(function)))
    attempt(name + " vars", lambda function=function: sorted(vars(function)))
    attempt(name + " hash", lambda function=function: hash(function) == hash(function))
    attempt(name + " equal", lambda function=function: (function == function, function != 1))
    attempt(name + " missing", lambda function=function: function.missing)
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__"):
        attempt(name + attribute, lambda f=function, a=attribute: getattr(f, a))
    attempt(name + " pickled", lambda function=function: len(pickle.dumps(function)) > 0)

print("leaf", jax.tree_util.tree_leaves({"step": step})[0] is step)
print("leaf", jax.tree_util.all_leaves([step]), jax.tree_util.tree_structure(step))
print("dictionary", step.__dict__ is step.__dict__, step.__wrapped__.__name__)
step.note = [1]
step.__doc__ = "Changed."
print("attributes", step.note, step.__doc__, vars(step)["note"], hasattr(step, "note"))
del step.note
print("attributes", hasattr(step, "note"))


@functools.wraps(step)
def around(x):
    return step(x) + 1


print("wraps", around.__name__, around.__wrapped__ is step, inspect.signature(around))
show("around", around(x))
ran("step")


@functools.singledispatch
def kind_of(thing):
    return "thing"


@kind_of.register(type(step))
def _(function):
    return "compiled function"


print("dispatch", kind_of(step), kind_of(print))
print("types", type(step) == type(static), type(step) in {type(static)}, type(step) is type(static))  # noqa: E721
print("types", isinstance(static, type(step)), isinstance(print, type(step)), type(step) == int)  # noqa: E721
print("types", issubclass(type(step), type(static)), issubclass(int, type(step)))

for name, copied in {"copy": copy.copy(step), "deepcopy": copy.deepcopy({"a": step})["a"]}.items():
    print(name, copied is step, str(type(copied)), hasattr(copied, "__name__"))
    for _ in range(5):
        show(name, copied(x))
    ran("step", 5)
print("copied parallel", str(type(copy.copy(parallel))))
show("copied parallel", copy.copy(parallel)(x[None]))
ran("<lambda>")

pickled = cloudpickle.dumps(step)
print("tfprobe" in repr(pickled), "CompiledFunction" in repr(pickled))
show("loaded", pickle.loads(pickled)(x))
loaded = pickle.loads(cloudpickle.dumps({"twice": [step, step]}))["twice"]
print("loaded", loaded[0] is loaded[1], str(type(loaded[0])))
attempt("loaded parallel", lambda: pickle.loads(cloudpickle.dumps(parallel))(x[None]))

for name, gradient in {
    "slope": slope,
    "copy": copy.copy(slope),
    "deepcopy": copy.deepcopy([slope])[0],
    "pickled": pickle.loads(pickle.dumps(slope)),
}.items():
    print(name, gradient is slope, str(type(gradient)), inspect.signature(gradient))
    show(name, gradient(x))
ran("grad slope", 4)
pickled = cloudpickle.dumps([slope, jax.grad(lambda x: jnp.sum(3 * x))])
print("tfprobe" in repr(pickled), "CompiledFunction" in repr(pickled))
for gradient in pickle.loads(pickled):
    show("loaded gradient", gradient(x))
ran("grad slope", int(pickle.loads(pickled)[0] is slope))
show("vmap", jax.vmap(jax.grad(lambda x: x**3))(x))
show("jit", jax.jit(slope)(x))
ran("slope")
print("jaxpr", jax.make_jaxpr(slope)(x), jax.eval_shape(slope, x))
print("lowered", jax.jit(slope).lower(x).as_text())
show("partial", functools.partial(slope)(x))
ran("grad slope")
attempt("no scalar", lambda: jax.grad(lambda x: x)(x))
attempt("not differentiable", lambda: slope(jnp.arange(3)))

model = Model()
for _ in range(3):
    show("double", Model.double(x))
    show("method", model.method(x))
    show("of class", Model.of_class(x))
    show("plain", model.plain(x))
    show("partial", functools.partial(static, times=2)(x))
    show("call", step.__call__(x))
    show("map", next(map(step, [x])))
ran("double", 3)
ran("method", 3)
ran("of_class", 3)
ran("<lambda>", 3)
ran("static", 3)
ran("step", 6)
print("methods", Model.__dict__["method"] is Model.method, model.method == model.method)
print("methods", model.method.__func__ is Model.method, model.method.__self__ is model)


def made():
    return jax.jit(lambda x: x - 1)


function = made()
show("made", function(x))
ran("<lambda>")
reference = weakref.ref(function)
finalized = []
weakref.finalize(function, finalized.append, "gone")
print("weak", reference() is function, weakref.WeakKeyDictionary({function: 1})[function])
del function
jax.clear_caches()
gc.collect()
print("weak", reference(), finalized)

big = jnp.ones((1000,))
counted = sys.getrefcount(big)
step(big)
ran("step")
print("references", sys.getrefcount(big) - counted, len(jax.live_arrays()))
print("cache", step._cache_size(), step.clear_cache(), step._cache_size())
print("COUNTS", json.dumps(COUNTS))
