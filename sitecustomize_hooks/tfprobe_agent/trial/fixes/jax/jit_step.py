"""Compile the function of the job that takes a gradient op by op: put `jax.jit` around it.

The first call shows which function it is. It is replaced where it is bound; where the step is written inline in a loop,
a gradient that is called again and again is compiled alone. Numbers and strings among the arguments are constants of
the compiled program, unless they vary. What a compiled program would not follow is left alone: see `purity`.
"""

import functools
import sys

from tfprobe_agent.frameworks.jax import functions
from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial import losses, units, weights
from tfprobe_agent.trial.fixes import calls, step_functions

from . import purity

MODULES = ("jax",)
_MAKERS = ("grad", "value_and_grad")
_APPLIES = frozenset(("apply_gradients", "apply_updates", "update", "tree_map", "map"))
_OTHER_ARRAYS = "a compiled step ends after the weights are updated, a gradient before"
_OTHER_LOSSES = "a compiled step takes several gradients, of which each has a loss in the base"
# Stands among constants for what is none.
_ARRAY = "an array"
# A step that was replaced where it is bound is called by another name, if it takes so many more gradients.
_MISSED = 20


class _Traced:
    """What is traced now: a compiled step, and whether that is within a gradient of it."""

    step = None
    is_inside = False


def patch(name, module, value, note):
    """Look at what calls a gradient."""
    seen = {}
    for maker in _MAKERS:
        calls.replace(module, maker, lambda original: _around_maker(original, seen, note))


def _around_maker(original, seen, note):
    def make(*args, **kwargs):
        made = original(*args, **kwargs)
        function = args[0] if args else kwargs.get("fun")
        return _Gradient(made, function, seen, note).run if callable(made) and calls.is_of_job(function) else made

    return make


class _Gradient:
    """What the job calls as a gradient: `call` is made in its place. `seen` has what became of code that called one."""

    def __init__(self, made, function, seen, note):
        self.function, self.seen, self.note, self.is_alone = function, seen, note, None
        self.call = self.made = made
        self.name = functions.name_of(made)

        def run(*args, **kwargs):
            if functions.executes():
                if self.call is self.made and self.is_alone is not False:
                    self._look(sys._getframe(1))
            elif _Traced.step is not None and not _Traced.is_inside:
                return self._within_step(args, kwargs)
            return self.call(*args, **kwargs)

        self.run = functools.update_wrapper(run, made)

    def _within_step(self, args, kwargs):
        """Count an outermost gradient of a step that is being traced: the base counts each of them."""
        counts = _Traced.step.gradients
        counts[self.name] = counts.get(self.name, 0) + 1
        _Traced.is_inside = True
        try:
            return self.call(*args, **kwargs)
        finally:
            _Traced.is_inside = False

    def _look(self, frame):
        """At its first call, compile the function that made it; at the second, itself, where that was impossible."""
        try:
            if self.is_alone:
                self._compile_alone()
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
            self.seen[frame.f_code] = _replaced(frame, self.note)
        step = self.seen[frame.f_code]
        return step is None or step.is_missed()

    def _compile_alone(self):
        why = purity.reason_against(self.function)
        if why is None:
            self.call = _Compiled(self.made).step(self.note).run
        else:
            self.is_alone = False
            self.note.skipped(why)


def _of_job(frame):
    """Return the frame that called, if it is the job's: libraries take gradients of their own."""
    while frame is not None and _is_between(frame.f_code):
        frame = frame.f_back
    return None if frame is None or is_library(frame.f_code.co_filename) else frame


def _is_between(code):
    return calls.is_of_agent(code) or code.co_filename.startswith("<frozen")


def _replaced(frame, note):
    """Replace the function that applies the gradient, this one or outside of it, else the one that takes it.

    Return what stands for it, or None.
    """
    holding = _below_loop(frame)
    applying = [each for each in holding if not _APPLIES.isdisjoint(each.f_code.co_names)]
    for each in dict.fromkeys(applying[:1] + holding[:1]):
        function, holders = step_functions.bound(each)
        name = each.f_code.co_name
        why = step_functions.local(name) if function is None else purity.reason_against(function)
        if why is None:
            step = _Observed(function, note)
            for holder in holders:
                setattr(holder, name, step.run)
            return step
        note.skipped(why)
    if not holding:
        note.skipped(step_functions.INLINE)
    return None


def _below_loop(frame):
    """Return the frames of the job from this one outwards, without that of the loop and what is outside of it."""
    found = []
    while frame is not None:
        if not is_library(frame.f_code.co_filename) and not _is_between(frame.f_code):
            if step_functions.is_inline(frame):
                break
            found.append(frame)
        frame = frame.f_back
    return found


class _Observed:
    """A step of which one more call is observed before it is compiled: what it does with its arguments and returns."""

    def __init__(self, function, note):
        self.function, self.note, self.call, self.missed = function, note, self._observe, 0
        self.run = functools.update_wrapper(lambda *args, **kwargs: self.call(*args, **kwargs), function)
        self.compiled, self.has_worked = None, False

    def is_missed(self):
        """Note that the function was called without this; return whether that is so again and again."""
        self.missed += self.call == self._observe
        if self.missed == _MISSED:
            self.note.skipped("%s is called by another name" % self.function.__name__)
        return self.missed >= _MISSED

    def _observe(self, *args, **kwargs):
        self.missed = -sys.maxsize
        leaves = sys.modules["jax"].tree_util.tree_leaves
        before = leaves((args, kwargs))
        result = self.function(*args, **kwargs)
        after = leaves((args, kwargs))
        name = self.function.__name__
        if len(before) != len(after) or any([old is not new for old, new in zip(before, after)]):
            self._leave("%s changes its arguments" % name)
        elif not _are_arrays(result):
            self._leave("%s returns what is no array of JAX" % name)
        else:
            self.compiled = _Compiled(self.function)
            self.call = self.compiled.step(self.note, self._worked).run
        return result

    def _leave(self, why):
        self.call = self.function
        self.note.skipped(why)

    def _worked(self):
        if not self.has_worked:
            self.has_worked = True
            units.counts_as("jit", self.function.__name__, lambda: self.compiled.latest, "grad")
            units.add(self.compiled.latest)  # the call that showed it
            weights.leave_out(_OTHER_ARRAYS)
            if self.compiled.latest != 1:
                losses.LOSSES.leave_out(_OTHER_LOSSES)


def _are_arrays(result):
    """Return whether all in a result is an array, as a compiled program returns it, or an object that has arrays."""
    tree_util = sys.modules["jax"].tree_util
    leaves = tree_util.tree_leaves(result, is_leaf=lambda each: not _is_plain(each))
    return all([isinstance(leaf, sys.modules["jax"].Array) or not tree_util.all_leaves([leaf]) for leaf in leaves])


def _is_plain(tree):
    return isinstance(tree, (list, dict)) or (isinstance(tree, tuple) and not hasattr(tree, "_fields"))


class _Compiled:
    """A function with jax.jit around it, whose arguments need not be arrays."""

    def __init__(self, function):
        self.function = function
        self.jax = sys.modules["jax"]
        self.arrays = self.jax.Array, sys.modules["numpy"].ndarray, sys.modules["numpy"].generic, float, complex
        self.last, self.varying = None, set()  # positions of whole numbers that were different from call to call
        self.are_constants = True
        self.gradients = {}  # of the trace under way, by name
        self.counts = {}  # gradients of the unit, by what was traced
        self.latest = 0  # those of the latest call
        self._compile()

    def step(self, note, worked=lambda: None):
        """Return what calls it, unless that turns out to be impossible."""
        self.calling = step_functions.Step(
            self.function, self.call, self.traces, note, worked=worked, can_be_repeated=True
        )
        return self.calling

    def _compile(self):
        def run(arrays, constants):
            leaves = [
                array if constant is _ARRAY else constant for array, (_, constant) in zip(arrays, constants.leaves)
            ]
            args, kwargs = self.jax.tree_util.tree_unflatten(constants.tree, leaves)
            self.gradients.clear()
            outer, _Traced.step = _Traced.step, self
            try:
                result = self.function(*args, **kwargs)
            finally:
                _Traced.step = outer
            unit = units.COUNTER.unit or ("", "")
            self.latest = (
                self.gradients.get(unit[1], 0) if unit[0] == "grad" else max(self.gradients.values(), default=0)
            )
            return result

        run.__name__ = run.__qualname__ = self.function.__name__
        self.made = self.jax.jit(run, static_argnums=1)

    def call(self, *args, **kwargs):
        leaves, tree = self.jax.tree_util.tree_flatten((args, kwargs))
        if self.are_constants:
            self._compare([leaf if type(leaf) is int else None for leaf in leaves])
        are_arrays = [isinstance(leaf, self.arrays) or self._varies(at) for at, leaf in enumerate(leaves)]
        arrays = [leaf if is_array else None for leaf, is_array in zip(leaves, are_arrays)]
        rest = [_ARRAY if is_array else leaf for leaf, is_array in zip(leaves, are_arrays)]
        constants = _Constants(tree, rest)
        key = constants, tuple((getattr(one, "shape", ()), str(getattr(one, "dtype", type(one)))) for one in arrays)
        self.latest = self.counts.get(key, 0)
        result = self.made(arrays, constants)
        self.counts[key] = self.latest
        return result

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
        self.are_constants = self.calling.has_worked = False
        self._compile()
        return 0


class _Constants:
    """What the compiled program is made for: arguments that are equal, and of equal types, need no other.

    Raises TypeError for an object that may change without another hash: the program would not see it.
    """

    def __init__(self, tree, leaves):
        for leaf in leaves:
            if purity.may_change(leaf):
                raise TypeError("%s may change" % type(leaf).__name__)
        self.tree = tree
        self.leaves = tuple((type(leaf), leaf) for leaf in leaves)

    def __eq__(self, other):
        return isinstance(other, _Constants) and (self.tree, self.leaves) == (other.tree, other.leaves)

    def __hash__(self):
        return hash((self.tree, self.leaves))
