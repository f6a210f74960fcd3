"""The losses of a job's first steps, so that arms can be compared: losses.json.

A step's loss is a scalar of floating point in what its call returned, else what a gradient was last taken of. Losses
are kept as they are given, without waiting for them, and read together when the weights are: before anything is timed.
"""

import sys
from json import dumps

from tfprobe_agent.core.guard import STATE
from tfprobe_agent.core.recorder import current_recorder
from tfprobe_agent.core.threads import THREAD
from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

from .fixes.calls import replace

FILE = "losses.json"
_TAPE = "tensorflow.python.eager.backprop"
# The function of the agent in whose frame a step's result is.
_WRAPPER = "step_wrapper"
# Objects looked at in a result, the shallow ones first: losses stand beside weights and states.
MOST_LOOKED_AT = 256
_FLOATING = ("float", "bfloat")


class Losses:
    """The losses so far, by the number of units done, as the framework has given them."""

    def __init__(self):
        self.is_open = True
        self.kept = []
        self.left_out = ""
        self.differentiated = UNPATCHED.local()

    def patches(self):
        """Return pairs of names of modules and what to call with each once it has run."""
        return [(("torch",), _guarded(self._patch_torch)), ((_TAPE,), _guarded(self._patch_tape))]

    def _patch_torch(self, torch):
        from tfprobe_agent.frameworks.torch.optimizers import compiling_test

        is_compiling = compiling_test(torch)

        def around(original):
            def backward(tensor, *args, **kwargs):
                if self.is_open and not is_compiling():
                    self._note(tensor.detach)
                return original(tensor, *args, **kwargs)

            return backward

        replace(torch.Tensor, "backward", around)

    def _patch_tape(self, module):
        def around(original):
            def gradient(tape, target, *args, **kwargs):
                if self.is_open:
                    self._note(lambda: target)
                return original(tape, target, *args, **kwargs)

            return gradient

        replace(module.GradientTape, "gradient", around)

    def _note(self, give):
        """Keep what a gradient is taken of for the step that ends next in this thread, if it can be a loss."""
        try:
            value = give()
            if _is_scalar(value):
                self.differentiated.value = value
        except Exception:
            let_through()

    def stepped(self, done):
        """Keep the loss of the step that has just ended; `done` units are done."""
        value = _loss_in(_result())
        if value is None:
            value = getattr(self.differentiated, "value", None)
        self.differentiated.value = None
        if value is not None:
            self.kept.append((done, value))

    def leave_out(self, why):
        """Write no losses, which are not those of the base. Called by fixes."""
        self.left_out = why

    def write(self):
        """Read the losses, which waits for them, and write them; no more are kept."""
        self.is_open = False
        kept, self.kept = self.kept, []
        values = [(done, _number(value)) for done, value in kept]
        losses = [[done, value] for done, value in values if value is not None]
        missing = self.left_out or ("" if losses else "no step has given a scalar loss")
        document = {"missing": missing} if missing else {"losses": losses}
        current_recorder().process_dir.write_file(dumps(document).encode("utf-8"), FILE)


LOSSES = Losses()


def _guarded(patch):
    def guarded(name, module):
        try:
            patch(module)
        except Exception:
            let_through()
            STATE.log.error("losses in %s" % name)

    return guarded


def _result():
    """Return what the step that ends now has returned, or None: the wrapper of its call is among the callers."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != _WRAPPER:
        if not str(frame.f_globals.get("__name__")).startswith("tfprobe_agent."):
            return None
        frame = frame.f_back
    return None if frame is None else frame.f_locals.get("result")


def _loss_in(result):
    """Return the loss in a result: under that name, else the first scalar of floating point, the shallow ones first."""
    waiting, looked_at = [result], 0
    while waiting and looked_at < MOST_LOOKED_AT:
        value = waiting.pop(0)
        looked_at += 1
        if isinstance(value, dict):
            named = value.get("loss")
            if named is not None and _is_scalar(named):
                return named
            waiting += list(value.values())
        elif isinstance(value, (tuple, list)):
            waiting += value
        elif _is_scalar(value):
            return value
    return None


def _is_scalar(value):
    """Return whether this is one number of floating point; no value is looked at."""
    if isinstance(value, float):
        return True
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None or dtype is None or not hasattr(value, "__float__"):
        return False
    name = str(getattr(dtype, "name", dtype)).rpartition(".")[2]
    return tuple(shape) == () and name.startswith(_FLOATING)


def _number(value):
    """Return a loss as a number, or None if it cannot be read: JAX may have given its memory away."""
    depth, THREAD.current.depth = THREAD.current.depth, 1  # what reads it is no step of the job
    try:
        return float(value)
    except Exception:
        let_through()
        return None
    finally:
        THREAD.current.depth = depth


def stepped(done):
    """Keep the loss of the step that has just ended; errors are the agent's own."""
    try:
        LOSSES.stepped(done)
    except Exception:
        let_through()
        STATE.log.error("keeping a loss")


def write():
    """Write the losses so far."""
    try:
        LOSSES.write()
    except Exception:
        let_through()
        STATE.log.error("writing losses")


def forget():
    """Begin anew: other steps are counted now."""
    del LOSSES.kept[:]
