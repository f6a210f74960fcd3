"""Compile the function of the job that takes a gradient op by op: put `jax.jit` around it.

The first call shows which function it is. It is replaced where it is bound; where the step is written inline in a loop,
a gradient that is called again and again is compiled alone. Numbers and strings among the arguments are constants of
the compiled program, unless they vary.
"""

import dis
import functools
import sys
import types
from os.path import dirname, join

from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.frameworks.jax import functions
from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial import units, weights
from tfprobe_agent.trial.fixes import calls, step_functions

MODULES = ("jax",)
_MAKERS = ("grad", "value_and_grad")
_APPLIES = frozenset(("apply_gradients", "apply_updates", "update", "tree_map", "map"))
_OTHER_ARRAYS = "a compiled step ends after the weights are updated, a gradient before"
_STORES = frozenset(("STORE_ATTR", "STORE_GLOBAL", "DELETE_ATTR", "DELETE_GLOBAL"))
# Stands among constants for what is none.
_ARRAY = "an array"
_FIXED = types.FunctionType, types.BuiltinFunctionType, types.ModuleType, functools.partial
_AGENT = join(dirname(is_library.__code__.co_filename), "")


def patch(name, module, value, note):
    """Look at what calls a gradient."""
    seen = {}
    for maker in _MAKERS:
        calls.replace(module, maker, lambda original: _around_maker(original, seen, note))


def _around_maker(original, seen, note):
    def make(*args, **kwargs):
        made = original(*args, **kwargs)
        function = args[0] if args else kwargs.get("fun")
        return _Gradient(made, seen, note).run if callable(made) and calls.is_of_job(function) else made

    return make


class _Gradient:
    """What the job calls as a gradient: `call` is made in its place. `seen` has what became of code that called one."""

    def __init__(self, made, seen, note):
        self.seen, self.note, self.is_alone = seen, note, None
        self.call = self.made = made

        def run(*args, **kwargs):
            if self.call is self.made and self.is_alone is not False and functions.executes():
                self._look(sys._getframe(1))
            return self.call(*args, **kwargs)

        self.run = functools.update_wrapper(run, made)

    def _look(self, frame):
        """At its first call, compile the function that made it; at the second, itself, where that was impossible."""
        try:
            if self.is_alone:
                self.call = _compiled(self.made, self.note)
            else:
                self.is_alone = self._is_alone(_of_job(frame))
        except Exception as error:
            let_through()
            self.is_alone = False
            self.note.failed("%s: %s" % (type(error).__name__, error))

    def _is_alone(self, frame):
        """Return whether it is called by code of the job that cannot be compiled."""
        if frame is None:
            return False
        if frame.f_code not in self.seen:
            self.seen[frame.f_code] = _is_replaced(frame, self.note)
        return not self.seen[frame.f_code]


def _of_job(frame):
    """Return the frame that called, if it is the job's: libraries take gradients of their own."""
    while frame is not None and _is_of_agent(frame.f_code):
        frame = frame.f_back
    return None if frame is None or is_library(frame.f_code.co_filename) else frame


def _is_of_agent(code):
    return code.co_filename.startswith((_AGENT, "<frozen"))


def _is_replaced(frame, note):
    """Replace the function that applies the gradient, this one or outside of it, else the one that takes it."""
    holding = _below_loop(frame)
    applying = [each for each in holding if not _APPLIES.isdisjoint(each.f_code.co_names)]
    for each in dict.fromkeys(applying[:1] + holding[:1]):
        function, holders = step_functions.bound(each)
        name = each.f_code.co_name
        if function is None:
            note.skipped(step_functions.local(name))
        elif _changes_state(each.f_code):
            note.skipped("%s changes attributes or globals" % name)
        else:
            step = _Counted(function, note).run
            for holder in holders:
                setattr(holder, name, step)
            return True
    if not holding:
        note.skipped(step_functions.INLINE)
    return False


def _below_loop(frame):
    """Return the frames of the job from this one outwards, without that of the loop and what is outside of it."""
    found = []
    while frame is not None:
        if not is_library(frame.f_code.co_filename) and not _is_of_agent(frame.f_code):
            if step_functions.is_inline(frame):
                break
            found.append(frame)
        frame = frame.f_back
    return found


def _changes_state(code):
    """Return whether a function, or one in it, stores what a compiled program would store once, while it is traced."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    stores = any(instruction.opname in _STORES for instruction in dis.get_instructions(code))
    return stores or any(map(_changes_state, inner))


class _Counted:
    """A step of which one more call is observed, to see how many steps of the base it is, before it is compiled."""

    def __init__(self, function, note):
        self.function, self.note, self.call, self.has_worked = function, note, self._count, False
        self.run = functools.update_wrapper(lambda *args, **kwargs: self.call(*args, **kwargs), function)

    def _count(self, *args, **kwargs):
        before = _gradients()
        result = self.function(*args, **kwargs)
        taken = {key: n - before.get(key, 0) for key, n in _gradients().items()}
        times = taken.get(units.COUNTER.unit) or max(taken.values(), default=0)
        if times:
            self.call = _compiled(self.function, self.note, lambda: self._worked(times))
        return result

    def _worked(self, times):
        if not self.has_worked:
            self.has_worked = True
            units.counts_as("jit", self.function.__name__, times, "grad")
            units.add(times)  # the call that showed it
            weights.leave_out(_OTHER_ARRAYS)


def _gradients():
    return {key: loop.n for key, loop in list(THREAD.current.loops.items()) if key[0] == "grad"}


def _compiled(function, note, worked=lambda: None):
    """Return what runs the function compiled, unless that turns out to be impossible."""
    compiled = _Compiled(function)
    step = step_functions.Step(function, compiled.call, compiled.traces, note, worked=worked)
    compiled.step = step
    return step.run


class _Compiled:
    """A function with jax.jit around it, whose arguments need not be arrays."""

    def __init__(self, function):
        self.function = function
        self.step = None
        self.jax = sys.modules["jax"]
        self.arrays = self.jax.Array, sys.modules["numpy"].ndarray, sys.modules["numpy"].generic, float, complex
        self.last, self.varying = None, set()  # positions of whole numbers that were different from call to call
        self.are_constants = True
        self._compile()

    def _compile(self):
        def run(arrays, constants):
            leaves = [
                array if constant is _ARRAY else constant for array, (_, constant) in zip(arrays, constants.leaves)
            ]
            args, kwargs = self.jax.tree_util.tree_unflatten(constants.tree, leaves)
            return self.function(*args, **kwargs)

        run.__name__ = run.__qualname__ = self.function.__name__
        self.made = self.jax.jit(run, static_argnums=1)

    def call(self, *args, **kwargs):
        leaves, tree = self.jax.tree_util.tree_flatten((args, kwargs))
        if self.are_constants:
            self._compare([leaf if type(leaf) is int else None for leaf in leaves])
        are_arrays = [isinstance(leaf, self.arrays) or self._varies(at) for at, leaf in enumerate(leaves)]
        arrays = [leaf if is_array else None for leaf, is_array in zip(leaves, are_arrays)]
        rest = [_ARRAY if is_array else leaf for leaf, is_array in zip(leaves, are_arrays)]
        return self.made(arrays, _Constants(tree, rest))

    def _compare(self, numbers):
        if self.last is not None and len(self.last) == len(numbers):
            self.varying.update(at for at, number in enumerate(numbers) if number != self.last[at])
        self.last = numbers

    def _varies(self, at):
        return not self.are_constants and at in self.varying

    def traces(self):
        """Return how often it was traced; if whole numbers are why, those are no constants from now on."""
        count = self.made._cache_size()
        if count <= step_functions.MAX_TRACES or not (self.are_constants and self.varying):
            return count
        self.are_constants = self.step.has_worked = False
        self._compile()
        return 0


class _Constants:
    """What the compiled program is made for: arguments that are equal, and of equal types, need no other.

    Raises TypeError for an object that may change without another hash: the program would not see it.
    """

    def __init__(self, tree, leaves):
        for leaf in leaves:
            if type(leaf).__hash__ is object.__hash__ and not isinstance(leaf, (type, *_FIXED)):
                raise TypeError("%s may change" % type(leaf).__name__)
        self.tree = tree
        self.leaves = tuple((type(leaf), leaf) for leaf in leaves)

    def __eq__(self, other):
        return isinstance(other, _Constants) and (self.tree, self.leaves) == (other.tree, other.leaves)

    def __hash__(self):
        return hash((self.tree, self.leaves))
