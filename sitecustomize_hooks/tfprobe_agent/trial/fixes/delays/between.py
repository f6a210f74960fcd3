"""Slow down what the program does between two steps, without the time in which it takes its input.

The steps of some kinds follow each other without a gap. There it is the time from the end of a step to the first call
of a module, or the first GradientTape, of the next.
"""

import sys

from tfprobe_agent.core.steps_layout import RING_MASK, TIME_MASK
from tfprobe_agent.trial.delays import delay_of, thread_cpu_ns
from tfprobe_agent.trial.fixes.calls import replace, without_errors
from tfprobe_agent.unpatched import UNPATCHED

_UNITS = "tfprobe_agent.trial.units"
_TAPE = "tensorflow.python.eager.backprop"
_ITERATORS = "tensorflow.python.data.ops.iterator_ops"
MODULES = (_UNITS, "torch", _TAPE, _ITERATORS)
_LOADERS = "torch.utils.data.dataloader"
_TORCH_MODULES = "torch.nn.modules.module"
UNBROKEN = frozenset(("eager", "optimizer_step"))


def patch(name, module, value, note):
    """Follow the steps that are counted, what begins the next one, and what takes input."""
    between = _between(value, note)
    if name == _UNITS:
        module.COUNTER.followers.append(without_errors(note, between.stepped))
    elif name == "torch":
        replace(sys.modules[_LOADERS]._BaseDataLoaderIter, "__next__", between.taking_input)
        sys.modules[_TORCH_MODULES].register_module_forward_pre_hook(_before_module(module, between))
    elif name == _TAPE:
        replace(module.GradientTape, "__enter__", between.beginning)
    elif hasattr(module, "OwnedIterator"):
        replace(module.OwnedIterator, "__next__", between.taking_input)


def _between(percent, note):
    delay = delay_of("between", percent, note)
    if not hasattr(delay, "between"):
        delay.between = _Between(delay)
    return delay.between


def _before_module(torch, between):
    from tfprobe_agent.frameworks.torch.optimizers import compiling_test

    is_compiling = compiling_test(torch)

    def look(_module, _args):
        if not is_compiling():
            between.begins()

    return look


class _Between:
    """Where each thread is: since when it is between two steps, and how long it took input meanwhile."""

    def __init__(self, delay):
        self.delay = delay
        self.local = UNPATCHED.local()
        self.begins = without_errors(delay.note, self._begins)

    def stepped(self, loop):
        """Begin the time between steps. Where only the end of a gap shows how long it was, slow the next one down."""
        mine = self.local.__dict__
        input_ns, mine["input_ns"], mine["input_cpu_ns"] = mine.get("input_ns", 0), 0, 0
        if loop.kind in UNBROKEN:
            mine["since"] = UNPATCHED.monotonic_ns(), thread_cpu_ns()
        elif loop.n >= 2:
            before_ns = loop.ring[((loop.n - 2) & RING_MASK) * 2 + 1] & TIME_MASK
            gap_ns = loop.ring[((loop.n - 1) & RING_MASK) * 2] - before_ns - input_ns - mine.get("delayed_ns", 0)
            began_ns = UNPATCHED.monotonic_ns()
            self.delay.lasted(gap_ns, gap_ns)
            mine["delayed_ns"] = UNPATCHED.monotonic_ns() - began_ns  # lies in the gap that begins here

    def _begins(self):
        mine = self.local.__dict__
        since = mine.pop("since", None)
        if since is not None:
            took_ns = UNPATCHED.monotonic_ns() - since[0] - mine["input_ns"]
            self.delay.lasted(took_ns, thread_cpu_ns() - since[1] - mine["input_cpu_ns"])

    def beginning(self, original):
        """Return the method that begins a step."""

        def begin(*args, **kwargs):
            self.begins()
            return original(*args, **kwargs)

        return begin

    def taking_input(self, original):
        """Return the method that takes input, with its time noted."""

        def take(*args, **kwargs):
            began_ns, cpu_ns = UNPATCHED.monotonic_ns(), thread_cpu_ns()
            try:
                return original(*args, **kwargs)
            finally:
                mine = self.local.__dict__
                mine["input_ns"] = mine.get("input_ns", 0) + UNPATCHED.monotonic_ns() - began_ns
                mine["input_cpu_ns"] = mine.get("input_cpu_ns", 0) + thread_cpu_ns() - cpu_ns

        return take
