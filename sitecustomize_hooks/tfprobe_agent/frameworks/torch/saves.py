"""Calls of torch.save: they are activities, inside or between steps."""

import sys

from tfprobe_agent import activities, patching
from tfprobe_agent.interruptions import leave_traceback

# The function is defined in the first one; programs mostly call it through the second.
_MODULES = ("torch.serialization", "torch")
# It pickles the memory of tensors by torch.save: that is no save of the program.
_PICKLES = "torch.storage"


def patch():
    """Patch the function under both of its names; inside of a save another one is part of it."""
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None:
            patching.patch_call(module, "save", _around)


def _around(original):
    noting = activities.noted("save", "torch.save")(original)

    def save(*args, **kwargs):
        is_pickling = sys._getframe(1).f_globals.get("__name__") == _PICKLES
        try:
            return (original if is_pickling else noting)(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise

    return save
