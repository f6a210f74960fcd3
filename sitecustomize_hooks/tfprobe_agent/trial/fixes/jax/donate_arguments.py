"""Donate what a function of `jax.jit` replaces: arguments whose arrays are those that its last call returned.

The first calls show which these are; then the function is compiled anew with `donate_argnums`. A program that uses such
an argument later fails.
"""

import sys

from tfprobe_agent.frameworks.jax import functions
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial.fixes import calls

MODULES = ("jax",)
_DONATES = ("donate_argnums", "donate_argnames")
# A function that does not get its results back by then does not get them.
MOST_CALLS = 8


def patch(name, module, value, note):
    """Replace `jax.jit`."""
    calls.replace(module, "jit", lambda original: _jit(original, note))


def _jit(original, note):
    def jit(*args, **kwargs):
        made = original(*args, **kwargs)
        function = args[0] if args else kwargs.get("fun")
        if not calls.is_of_job(function) or not hasattr(made, "lower"):
            return made
        if any([kwargs.get(option) not in (None, ()) for option in _DONATES]):
            note.skipped("the program donates arguments already")
            return made
        return _standing_for(made, _Donating(made, original, args, kwargs, note))

    return jit


def _standing_for(made, donating):
    """Return a function that calls what donates; all else is that of the compiled function."""

    def call(*args, **kwargs):
        return donating.current(*args, **kwargs)

    for name in dir(made):
        if not name.startswith("__"):
            setattr(call, name, getattr(made, name))
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(call, name, getattr(made, name, getattr(call, name)))
    call.__wrapped__ = getattr(made, "__wrapped__", made)
    return call


class _Donating:
    """A compiled function: `current` is called in its place."""

    def __init__(self, made, jit, args, kwargs, note):
        self.made, self.jit, self.args, self.kwargs, self.note = made, jit, args, kwargs, note
        self.returned = None  # the arrays of the last result
        self.calls = 0
        self.current = self._observed

    def _observed(self, *args, **kwargs):
        if functions.executes():
            try:
                self._look(args)
            except Exception as error:
                let_through()
                self._end()
                self.note.failed("%s: %s" % (type(error).__name__, error))
            if self.current != self._observed:
                return self.current(*args, **kwargs)
        result = self.made(*args, **kwargs)
        if functions.executes() and self.current == self._observed:
            self.returned = _arrays(result)
        return result

    def _look(self, args):
        """Compile anew if arguments are what the last call returned; give up after some calls."""
        self.calls += 1
        donated = self._replaced(args) if self.returned is not None else ()
        if donated:
            self._end()
            self.current = self.jit(*self.args, **dict(self.kwargs, donate_argnums=donated))
            self.note.applied()
        elif self.calls >= MOST_CALLS:
            self._end()
            self.note.skipped("%s is not called with what it has returned" % functions.name_of(self.made))

    def _end(self):
        self.returned, self.current = None, self.made

    def _replaced(self, args):
        """Return the positions of arguments that consist of returned arrays, none of which is there twice."""
        returned = {id(array) for array in self.returned}
        by_position = [[id(array) for array in _arrays(argument)] for argument in args]
        everything = [one for ids in by_position for one in ids]
        return tuple(
            at
            for at, ids in enumerate(by_position)
            if ids and returned.issuperset(ids) and all([everything.count(one) == 1 for one in ids])
        )


def _arrays(tree):
    jax = sys.modules["jax"]
    return [leaf for leaf in jax.tree_util.tree_leaves(tree) if isinstance(leaf, jax.Array)]
