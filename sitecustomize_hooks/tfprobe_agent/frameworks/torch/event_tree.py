"""What a session of the profiler knows and does not write into a trace: modules, and lines that called functions.

A trace has the line where each function of Python begins. The events of the session also know from which line of its
caller it was called, which is added to the trace.
"""

import os
import sys
from json import dumps

from tfprobe_agent.core.guard import never_raise_tracing
from tfprobe_agent.unpatched import UNPATCHED, write_all

_PREFIX = "nn.Module: "
# How the object ends that a trace is, and the key under which calls are added to it.
_END, KEY, _MOST_SPACE = b"}", "tfprobe_calls", 16
# Traces of more events are not searched.
MOST_EVENTS = 200000


class Found:
    """What was found: the address of each module by its name, and calls of functions.

    The latter are rows: the start in unix ns, as in the trace, the number of the caller's file, and the line in it.
    """

    def __init__(self):
        self.modules = {}
        self.files = {}
        self.calls = []


@never_raise_tracing
def search(session):
    """Return what a session knows, None if its events cannot be read."""
    kinds = sys.modules["torch"]._C._profiler._EventType
    found, left = Found(), MOST_EVENTS
    waiting = list(session.experimental_event_tree())
    while waiting and left:
        event = waiting.pop()
        left -= 1
        waiting.extend(event.children)
        tag = event.tag
        if tag != kinds.PyCall and tag != kinds.PyCCall:
            continue
        fields = event.extra_fields
        caller = getattr(fields, "caller", None)
        file = getattr(caller, "file_name", "")
        if file:
            number = found.files.setdefault(file, len(found.files))
            found.calls.append((event.start_time_ns, number, caller.line_number))
        module = fields.module if tag == kinds.PyCall else None
        if module is not None and event.name.startswith(_PREFIX):
            found.modules[event.name[len(_PREFIX) :]] = module.self_ptr
    return found


def add_calls(trace, found):
    """Add calls to the trace in a file; not to one that does not end as libkineto ends it."""
    size = UNPATCHED.stat(trace).st_size
    descriptor = UNPATCHED.open(trace, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        end = UNPATCHED.pread(descriptor, _MOST_SPACE, max(size - _MOST_SPACE, 0))
        size -= len(end) - len(end.rstrip())
        if not end.rstrip().endswith(_END):
            return
        starts, files, lines = zip(*sorted(found.calls))
        columns = {"files": list(found.files), "start_ns": starts, "file": files, "line": lines}
        UNPATCHED.ftruncate(descriptor, size - 1)
        write_all(descriptor, (', "%s": %s}' % (KEY, dumps(columns))).encode("utf-8"))
    finally:
        UNPATCHED.close(descriptor)
