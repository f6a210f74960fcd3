"""Update all parameters of an optimizer together instead of one after the other."""

from tfprobe_agent.trial.fixes.calls import after_init, without_errors

MODULES = ("torch",)


def patch(name, module, value, note):
    """Set the option `foreach` of each optimizer when it is made."""

    def look(optimizer):
        for group in optimizer.param_groups:
            why = _why_not(group)
            if why is None:
                group["foreach"] = optimizer.defaults["foreach"] = True
                note.applied()
            else:
                note.skipped(why)

    after_init(module.optim.Optimizer, without_errors(note, look))


def _why_not(group):
    """Return why a group of parameters is not updated together by this fix, or None."""
    if "foreach" not in group:
        return "this optimizer cannot"
    if group.get("fused"):
        return "is fused already"
    if group.get("differentiable"):
        return "is differentiable"
    if group["foreach"] or (group["foreach"] is None and all([parameter.is_cuda for parameter in group["params"]])):
        return "does so already"
    return None
