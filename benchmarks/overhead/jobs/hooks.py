"""Take tfprobe's hooks out of this process and put them back, so that both ways run by turns.

What differs between two processes (memory layout, clock rate, neighbours) would hide a microsecond.
Runs on Python 3.6.
"""

import sys

_MARK = "_tfprobe_wrapped"


class Hooks:
    """Every class method and module function of this process that tfprobe stands in front of."""

    def __init__(self):
        self._places = []
        owners = [module for module in list(sys.modules.values()) if hasattr(module, "__dict__")]
        classes = {
            id(value): value
            for module in owners
            if module.__name__.startswith(("tensorflow", "keras", "tf_keras"))
            for value in list(vars(module).values())
            if isinstance(value, type)
        }
        for owner in owners + list(classes.values()):
            for name, value in list(vars(owner).items()):
                if _is_hook(value):
                    self._places.append((owner, name, value, value.__wrapped__))
        if not self._places:
            raise SystemExit("nothing is hooked here: run this under `tfprobe run`")

    def add(self, owner, name, hooked, bare):
        """Add a hook that stands in an instance."""
        self._places.append((owner, name, hooked, bare))

    def use(self, hooked):
        """Put all hooks in, or take them out."""
        for owner, name, hook, bare in self._places:
            setattr(owner, name, hook if hooked else bare)


def _is_hook(value):
    try:
        ours = getattr(value, _MARK, False) is True or getattr(type(value), _MARK, False) is True
        return ours and hasattr(value, "__wrapped__")
    except Exception:  # lazy modules' attributes may do anything when looked at
        return False
