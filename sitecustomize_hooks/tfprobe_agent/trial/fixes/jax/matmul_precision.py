"""Multiply float32 matrices on accelerators in the format `value`, or JAX's default where a program asks for more."""

from tfprobe_agent.trial.fixes.calls import replace
from tfprobe_agent.trial.fixes.devices import has_accelerator

MODULES = ("jax",)
_OPTION = "jax_default_matmul_precision"
_PRECISION = "default"


def patch(name, module, value, note):
    """Set the option, and give it this value wherever the program sets it."""
    precision = _PRECISION if value is None else value
    config = module.config
    if config.jax_platforms == "cpu" or not has_accelerator():
        note.skipped("there is no accelerator")
        return

    def around(original):
        def update(self, option, setting):
            if option != _OPTION or setting in (precision, None):
                return original(self, option, setting)
            note.applied()
            return original(self, option, precision)

        return update

    before = config.jax_default_matmul_precision
    if before == precision or (before is None and precision == _PRECISION):
        note.skipped("is %s already" % precision)
    else:
        config.update(_OPTION, precision)
        note.applied()
    replace(type(config), "update", around)
