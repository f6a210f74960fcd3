"""Compute what allows it in bfloat16, inside of the modules that a training step calls; what they return is float32."""

import functools
import sys

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.trial.fixes.calls import without_errors

from .module_calls import watch_training

MODULES = ("torch",)
_TREES = "torch.utils._pytree"


def patch(name, module, value, note):
    """Replace `forward` of the modules that the first step calls, from the third step on."""
    models = []

    def found(model):
        device = next(model.parameters()).device.type
        if _is_autocast_on(module, device):
            note.skipped("autocast is on already")
        elif not any([parameter.dtype == module.float32 for parameter in model.parameters()]):
            note.skipped("has no parameters in float32")
        else:
            models.append((model, device))

    def stepped():
        for model, device in models:
            model.forward = _in_bfloat16(module, model.forward, device)
            note.applied()
        del models[:]

    watch_training(module, without_errors(note, found), without_errors(note, stepped))


def _is_autocast_on(torch, device):
    try:
        return torch.is_autocast_enabled(device)
    except TypeError:
        let_through()
        # Until PyTorch 2.4 each kind of device has a function of its own.
        return torch.is_autocast_cpu_enabled() if device == "cpu" else torch.is_autocast_enabled()


def _in_bfloat16(torch, forward, device):
    """Return `forward` in a region of autocast."""
    tree_map = sys.modules[_TREES].tree_map

    def widened(value):
        return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value

    @functools.wraps(forward)
    def call(*args, **kwargs):
        with torch.autocast(device, dtype=torch.bfloat16):
            result = forward(*args, **kwargs)
        return tree_map(widened, result)

    return call
