"""Let cuDNN try its kernels for each shape of a convolution, and take the fastest."""

from tfprobe_agent.trial.fixes.calls import without_errors

from .module_calls import before_first, uses_accelerator

MODULES = ("torch",)


def patch(name, module, value, note):
    """Set the option before the first call of a module."""
    cudnn = module.backends.cudnn

    def begin():
        if not uses_accelerator(module):
            note.skipped("no accelerator is used")
        elif cudnn.benchmark:
            note.skipped("is on already")
        elif cudnn.deterministic or module.are_deterministic_algorithms_enabled():
            note.skipped("the program asks for deterministic kernels")
        else:
            cudnn.benchmark = True
            note.applied()

    before_first(module, without_errors(note, begin))
