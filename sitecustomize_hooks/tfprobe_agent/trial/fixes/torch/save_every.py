"""Save only at each `value`-th call of torch.save that comes from one line of the program, the first included."""

import os
import sys

from tfprobe_agent.imports import place_of
from tfprobe_agent.trial.fixes.calls import replace, without_errors

MODULES = ("torch",)
_EVERY = 10


def patch(name, module, value, note):
    """Replace torch.save. What goes to an object in memory is saved: the program reads it next."""
    every = _EVERY if value is None else value
    calls = {}

    def is_left_out(frame, target):
        if not isinstance(target, (str, os.PathLike)):
            note.skipped("saves to an object, not to a path")
            return False
        place = place_of(frame)
        calls[place] = calls.get(place, 0) + 1
        if calls[place] % every == 1 or every == 1:
            return False
        note.applied()
        return True

    def around(original):
        decide = without_errors(note, is_left_out)

        def save(obj, f, *args, **kwargs):
            if decide(sys._getframe(1), f):
                return None
            return original(obj, f, *args, **kwargs)

        return save

    replace(module, "save", around)
