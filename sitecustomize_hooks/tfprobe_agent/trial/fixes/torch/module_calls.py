"""The modules that a job calls itself: the first of all, and those of its first training step.

They are seen by a hook that PyTorch calls before each call of a module. It is gone before anything is measured.
"""

import sys

from tfprobe_agent.frameworks.torch.optimizers import compiling_test

_MODULES = "torch.nn.modules.module"
_OPTIMIZERS = "torch.optim.optimizer"
# Calls of modules that are looked at where no optimizer steps: the hook must not stay in a job of inference.
MOST_CALLS = 10000


def before_first(torch, begin):
    """Call `begin` once, before the first call of any module: by then the job has chosen its devices."""

    is_compiling = compiling_test(torch)

    def look(_module, _args):
        if not is_compiling():
            hook.remove()
            begin()

    hook = sys.modules[_MODULES].register_module_forward_pre_hook(look)


def watch_training(torch, found, stepped=None):
    """Call `found` with each outermost module that trains, before its first call; `stepped` at the start of step 2.

    A module trains if it is called in training mode with gradients, and has parameters that need some. Those inside
    of another one that trains are not outermost. Neither function may raise.
    """
    known, calls, steps = {}, [], []
    is_compiling = compiling_test(torch)

    def look(module, _args):
        if is_compiling():
            return
        calls.append(None)
        if steps or len(calls) >= MOST_CALLS:
            for hook in hooks:
                hook.remove()
            known.clear()
            if steps and stepped is not None:
                stepped()
        elif id(module) not in known and module.training and torch.is_grad_enabled() and _has_gradients(module):
            known.update((id(inner), inner) for inner in module.modules())
            found(module)

    def after_step(_optimizer, _args, _kwargs):
        if not is_compiling():
            steps.append(None)  # the hook is not removed here: PyTorch is going through its hooks

    hooks = [
        sys.modules[_MODULES].register_module_forward_pre_hook(look),
        sys.modules[_OPTIMIZERS].register_optimizer_step_post_hook(after_step),
    ]


def _has_gradients(module):
    return any([parameter.requires_grad for parameter in module.parameters()])


def uses_accelerator(torch):
    """Return whether the job has initialized CUDA, or ROCm, which goes by the same name; this initializes none."""
    return bool(torch.cuda.is_initialized())
