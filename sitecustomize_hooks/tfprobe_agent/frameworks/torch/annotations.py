"""Annotations of the program (`record_function`) that began in a traced step and last longer.

PyTorch writes the end of an annotation to memory of the session in which it began, if any session is open by then, and
the process may end by that. So those which are open when a session ends are made to end without being written.
"""

import gc
import sys

from tfprobe_agent.unpatched import read_file

_PROFILER = "torch.autograd.profiler"
# How libkineto marks what has not ended, and how the name before it begins.
_OPEN, _NAME = b'"finished": false', b'"name": "'
# What each allocation and release of memory is called, which has no end.
_MEMORY = "[memory]"
# How PyTorch's own annotation around the step of an optimizer begins.
OF_OPTIMIZERS = "Optimizer.step#"
_MOST_BYTES = 1 << 28

# What PyTorch has made for annotations that were let go: freeing it would end them.
_KEPT = []


def let_go_of_open(capture, spared):
    """Let the annotations that have not ended in this capture end without a word to the profiler.

    Those whose name begins with one of the tuple `spared` are left: they end while no session is open. The objects of
    the process, of which there may be millions, are searched only if there are others.
    """
    names = {name for name in open_names(read_file(capture, _MOST_BYTES)) if not name.startswith(spared)}
    if not names:
        return
    cls = sys.modules[_PROFILER].record_function
    for thing in gc.get_objects():
        if type(thing) is cls and thing.name in names and getattr(thing, "record", None) is not None:
            thing.run_callbacks_on_exit = False
            _KEPT.append(thing.record)


def open_names(content):
    """Return the names of the annotations that have not ended in a capture, given as bytes."""
    names, at = set(), content.find(_OPEN)
    while at >= 0:
        begin = content.rfind(_NAME, 0, at) + len(_NAME)
        names.add(content[begin : content.find(b'"', begin)].decode("utf-8", "replace"))
        at = content.find(_OPEN, at + 1)
    names.discard(_MEMORY)
    return names
