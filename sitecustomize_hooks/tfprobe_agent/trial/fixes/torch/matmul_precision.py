"""Multiply matrices of float32 on accelerators in a faster format: `value`, or "high", which is TF32."""

from tfprobe_agent.trial.fixes.calls import without_errors

from .module_calls import before_first, uses_accelerator

MODULES = ("torch",)
_PRECISION = "high"


def patch(name, module, value, note):
    """Set the precision before the first call of a module."""
    precision = _PRECISION if value is None else value

    def begin():
        if not uses_accelerator(module):
            note.skipped("no accelerator is used")
        elif module.get_float32_matmul_precision() == precision:
            note.skipped("is %s already" % precision)
        else:
            module.set_float32_matmul_precision(precision)
            note.applied()

    before_first(module, without_errors(note, begin))
