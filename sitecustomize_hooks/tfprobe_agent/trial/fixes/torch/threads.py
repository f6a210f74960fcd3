"""Let operations of PyTorch use `value` threads, whatever the program asks for; else the usable CPUs."""

import sys

from tfprobe_agent.trial.fixes.calls import replace
from tfprobe_agent.unpatched import UNPATCHED

MODULES = ("torch",)


def patch(name, module, value, note):
    """Set the number, and replace the function that sets another. PyTorch's own calls, in its workers, are left."""
    threads = value if value is not None else len(UNPATCHED.sched_getaffinity(0))

    def around(original):
        def set_num_threads(wanted):
            if _is_of_torch(sys._getframe(1)):
                return original(wanted)
            if wanted == threads:
                note.skipped("has %d already" % threads)
            else:
                note.applied()
            return original(threads)

        return set_num_threads

    if module.get_num_threads() == threads:
        note.skipped("has %d already" % threads)
    else:
        module.set_num_threads(threads)
        note.applied()
    replace(module, "set_num_threads", around)


def _is_of_torch(frame):
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == "torch"
