"""The Keras wrappers: train, test and predict functions inside fit, evaluate and predict, and *_on_batch methods.

`runtime` is `on_tensorflow`, `on_jax` or `on_torch`: the module that knows the framework that runs the steps.
"""

import functools
import weakref

from tfprobe_agent import activities, patching
from tfprobe_agent.core import step_wrapper
from tfprobe_agent.core.guard import failed
from tfprobe_agent.core.recorder import find_named
from tfprobe_agent.core.steps_layout import OPTIMIZER_STEPS, PER_EXECUTION
from tfprobe_agent.core.threads import THREAD, cache_loop
from tfprobe_agent.frameworks import queued_steps
from tfprobe_agent.interruptions import leave_traceback

# The methods that run many steps, and the activity that each is.
_FIT_METHODS = (("fit", "train"), ("evaluate", "evaluate"), ("predict", "predict"))
_ON_BATCH = ("train_on_batch", "test_on_batch", "predict_on_batch")
_MAKERS = (
    ("make_train_function", "train_function", "fit"),
    ("make_test_function", "test_function", "evaluate"),
    ("make_predict_function", "predict_function", "predict"),
)
_BY_MODE = {"train": "fit", "test": "evaluate", "predict": "predict"}
_WRAPPED = "_tfprobe_step_wrapper"
# In place of an optimizer's count of steps that could not be read; a reader knows no negative count.
_UNREADABLE = -2


def patch_model(module, runtime):
    """Patch the class that runs training in this module: Keras' `Model`, or Keras 3's trainer."""
    for name in runtime.CLASSES:
        cls = module.__dict__.get(name)
        if cls is None or cls.__module__ != module.__name__:
            continue
        for method, activity in _FIT_METHODS:
            patching.patch_method(cls, method, _in_phase(runtime, method, activity))
        for method in _ON_BATCH:
            patching.patch_method(cls, method, _on_batch(runtime, method))
        for maker, attribute, kind in _MAKERS:
            patching.patch_method(cls, maker, _adopting(runtime, attribute, kind))


def patch_execution_functions(module, runtime):
    """Patch where TensorFlow 1.15 makes the functions that its eager fit, evaluate and predict run."""
    patching.patch_call(module, "_make_execution_function", _execution_function(runtime))


def _execution_function(runtime):
    def around(original):
        def make(*args, **kwargs):
            try:
                made = original(*args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            try:
                model, mode = args if len(args) == 2 else (kwargs["model"], kwargs["mode"])
                return _with_step_wrapper(runtime, model, _BY_MODE[mode], made)
            except Exception:
                failed("_make_execution_function")
            return made

        return make

    return around


class Phase:
    """The Keras method a thread is in, and the model it was called on."""

    __slots__ = ("kind", "model", "name")

    def __init__(self, kind, name, model):
        self.kind = kind
        self.name = name
        self.model = model


def _in_phase(runtime, kind, activity=None):
    """Note which Keras method a thread is in; the steps inside it have step wrappers of their own."""

    def around(original):
        def method(self, *args, **kwargs):
            current = THREAD.current
            outer, doing = current.phase, current.doing
            before = began = None
            try:
                try:
                    began = activity and activities.begin(activity, "%s.%s" % (_model_name(self), kind))
                    current.phase = Phase(kind, _model_name(self), weakref.ref(self))
                    before = _optimizer_steps(runtime, self) if kind == "fit" and current.depth == 0 else None
                except Exception:
                    failed("entering %s" % kind)
                return original(self, *args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            finally:
                current.phase, current.doing = outer, doing
                try:
                    if began is not None:
                        activities.end(began)
                    _note_optimizer_steps(runtime, self, before)
                except Exception:
                    failed("leaving %s" % kind)

        return method

    return around


def _on_batch(runtime, kind):
    """One call is one step if Keras executes eagerly; in graph mode the step is the callable inside."""
    executes = runtime.executes
    salt = 1 + _ON_BATCH.index(kind)

    def find(current, args, kwargs):
        if not args or not executes():
            return None
        loop = find_named(kind, _model_name(args[0]))
        cache_loop(id(args[0]) + salt, args[0], loop)
        return loop

    return step_wrapper.make(
        find, runtime.trace_on_batch, salt=salt, applies=executes, otherwise=_in_phase(runtime, kind)
    )


def _adopting(runtime, attribute, kind):
    """Have the calls of Keras' train function counted as steps. `train_on_batch` requests the function each time."""

    def around(original):
        def make(self, *args, **kwargs):
            try:
                made = original(self, *args, **kwargs)
            except BaseException as error:
                leave_traceback(error)
                raise
            try:
                if made is None and getattr(self.__dict__.get(attribute), _WRAPPED, False):
                    return made
                return _adopt(runtime, self, attribute, kind, made)
            except Exception:
                failed("wrapping %s" % attribute)
            return made

        return make

    return around


def _adopt(runtime, model, attribute, kind, made):
    """Mark a tf.function as counted; wrap a plain function (run eagerly, Keras 3, a schedule) in a step wrapper."""
    function = made if callable(made) else getattr(model, attribute, None)
    if function is None or getattr(function, _WRAPPED, False):
        return made
    if runtime.adopt(function, kind, _model_name(model)):
        return made
    wrapped = _with_step_wrapper(runtime, model, kind, function)
    if getattr(model, attribute, None) is function:
        setattr(model, attribute, wrapped)
    return wrapped if made is function else made


def _with_step_wrapper(runtime, model, kind, function):
    model_reference = weakref.ref(model)
    name = _model_name(model)

    def find(current, _args, _kwargs):
        loop = find_named(kind, name)
        if runtime.QUEUES and loop is not None:
            queued_steps.enroll(current, loop)
        if loop is not None and loop.owner is not model_reference:
            runtime.begin_loop(loop, function)
            loop.owner = model_reference
            _note_steps_per_execution(loop, model_reference())
        cache_loop(id(token), token, loop)
        return loop

    token = _Token()
    step = functools.wraps(function)(step_wrapper.make(find, runtime.trace_function)(function, token))
    setattr(step, _WRAPPED, True)
    return step


class _Token:
    """Stands for one function of one model: the job may use one function for two models."""

    __slots__ = ("__weakref__",)


def _note_steps_per_execution(loop, model):
    value = getattr(model, "steps_per_execution", None) or getattr(model, "_steps_per_execution", None)
    value = value.numpy() if hasattr(value, "numpy") else value
    if value is not None and int(value) > 0:
        loop.words[loop.base + PER_EXECUTION] = int(value)


def _optimizer_steps(runtime, model):
    """Return the optimizer's own count of steps; None if it cannot be read here and now.

    Reads what exists: the property `iterations` of older optimizers creates the variable when first read, which is for
    the job to do, under its own name and strategy.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or not runtime.can_count(model):
        return None
    for holder in (optimizer, vars(optimizer).get("_optimizer"), vars(optimizer).get("inner_optimizer")):
        iterations = getattr(holder, "__dict__", {}).get("_iterations")
        if hasattr(iterations, "numpy"):
            return runtime.count_of(iterations)
    return 0


def _note_optimizer_steps(runtime, model, before):
    """Store how many steps the optimizer itself counted during a fit: a check of the agent's own count."""
    if before is None:
        return
    after = _optimizer_steps(runtime, model)
    loop = THREAD.current.loops.get(("fit", _model_name(model)))
    if loop is not None and after is not None:
        offset = loop.base + OPTIMIZER_STEPS
        known = loop.words[offset]
        if before < 0 or after < 0 or known == _UNREADABLE:
            loop.words[offset] = _UNREADABLE  # of one fit: the sum of the others would be no check
        else:
            loop.words[offset] = max(0, known) + after - before
        _note_steps_per_execution(loop, model)


def _model_name(model):
    name = getattr(model, "name", None)
    return name if isinstance(name, str) else type(model).__name__
