"""Update all parameters of an optimizer by one kernel, which reads and writes each number once."""

import sys

from tfprobe_agent.trial.fixes.calls import after_init, without_errors

MODULES = ("torch",)
_SUPPORT = "torch.utils._foreach_utils"


def patch(name, module, value, note):
    """Set the option `fused` of each optimizer when it is made."""
    supported = getattr(sys.modules.get(_SUPPORT), "_get_fused_kernels_supported_devices", None)
    devices = ("cuda",) if supported is None else supported()

    def look(optimizer):
        for group in optimizer.param_groups:
            why = _why_not(group, devices)
            if why is None:
                group["fused"] = optimizer.defaults["fused"] = True
                note.applied()
            else:
                note.skipped(why)

    after_init(module.optim.Optimizer, without_errors(note, look))


def _why_not(group, devices):
    """Return why a group of parameters is not updated by one kernel, or None."""
    if "fused" not in group:
        return "this optimizer cannot"
    if group["fused"]:
        return "is fused already"
    if group.get("differentiable"):
        return "is differentiable"
    if not all([parameter.is_floating_point() and parameter.device.type in devices for parameter in group["params"]]):
        return "this PyTorch cannot for these parameters"
    return None
