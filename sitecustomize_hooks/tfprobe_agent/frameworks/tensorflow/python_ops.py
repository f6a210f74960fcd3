"""Where the Python of ops spends its time: generators of data sets, py_function, numpy_function.

It runs in TensorFlow's threads, mostly while the thread of the steps waits for it, so that no sample taken at a step
sees it. So now and then one call is watched, as a gap is; the place it spends its time at goes into the next sample of
thread times.
"""

import sys
import threading

from tfprobe_agent import patching
from tfprobe_agent.core import calls, tracing
from tfprobe_agent.core.gaps import MAX_EVENTS, Allowance, event_ns, somebody_watches
from tfprobe_agent.core.guard import STATE, never_raise_noting
from tfprobe_agent.core.recorder import CURRENT
from tfprobe_agent.core.thread_times import OP_PLACES
from tfprobe_agent.imports import is_library
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

# The first calls set up what later ones use.
FIRST_CALL = 4
# Between two watches; the first pause is shorter, and later ones are twice as long each.
FIRST_PAUSE_NS = 60 * 1000 * 1000
PAUSE_NS = 1000 * 1000 * 1000
# The limit of one watch, and the part of the budget for all of them.
MAX_OWN_NS = 2 * 1000 * 1000
SHARE = 0.1


class _Watches:
    """The watches of this process; created anew after a fork."""

    def __init__(self):
        self.calls = 0
        self.begun = 0
        self.spent_ns = 0
        self.next_ns = 0
        self.taken = threading.Lock()  # by the one call that is watched: others may run in other threads


WATCHES = _Watches()


def reset():
    """Forget the parent's watches, in a forked child."""
    WATCHES.__init__()
    OP_PLACES.clear()


def patch(module):
    """Patch the function that TensorFlow calls whenever an op runs Python."""
    patching.patch_method(module.FuncRegistry, "__call__", _around)


def _around(original):
    def call(*args, **kwargs):
        watches, begun = WATCHES, None
        watches.calls += 1
        try:
            if watches.calls >= FIRST_CALL and UNPATCHED.monotonic_ns() >= watches.next_ns:
                begun = []
                _begin(watches, begun)
            return original(*args, **kwargs)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            if begun:
                _end(watches, *begun)

    return call


@never_raise_noting
def _begin(watches, begun):
    """Watch the calling thread, unless another tool watches it; what `_end` needs is added to `begun`."""
    began_ns = UNPATCHED.monotonic_ns()
    recorder = CURRENT.recorder
    if recorder is None or recorder.pid != UNPATCHED.getpid() or not _is_affordable(watches, recorder, began_ns):
        return
    if tracing.holder() is not None:  # the trace would show a call that takes much longer
        return
    if somebody_watches() or not watches.taken.acquire(False):
        return
    watches.next_ns = began_ns + min(FIRST_PAUSE_NS << watches.begun, PAUSE_NS)
    watches.begun += 1
    cost_ns = event_ns(recorder)
    began_ns = UNPATCHED.monotonic_ns()
    allowance = Allowance(min(MAX_EVENTS, MAX_OWN_NS // cost_ns), MAX_OWN_NS, cost_ns)
    profile, settle = calls.make_profile_function(sys._getframe(1), began_ns, allowance, _never, _never)
    begun += recorder, profile, settle, cost_ns  # before an exception of the job may come
    UNPATCHED.setprofile(profile)


def _is_affordable(watches, recorder, now_ns):
    schedule = recorder.schedule
    if schedule.config.trace_level == "off" or STATE.leaving:
        return False
    usual_ns = watches.spent_ns // max(watches.begun, 1)
    return watches.spent_ns + usual_ns <= SHARE * schedule.allowed_ns(now_ns)


@never_raise_noting
def _end(watches, recorder, profile, settle, cost_ns):
    if UNPATCHED.getprofile() is profile:
        UNPATCHED.setprofile(None)
    ended_ns = UNPATCHED.monotonic_ns()
    nodes, events, made_ns = settle(ended_ns)
    place = _place(nodes)
    for node in nodes:  # they refer to each other
        node.parent = node.children = None
    if place is not None:
        OP_PLACES.append(place)
    spent_ns = events * cost_ns + made_ns + UNPATCHED.monotonic_ns() - ended_ns
    watches.spent_ns += spent_ns
    watches.taken.release()
    recorder.spent_once(spent_ns)


def _place(nodes):
    """Return the line of the job's outermost function that took most, if the job took most of the call."""
    outermost, places, took_ns = {}, {}, {}
    whole_ns = 0
    for node in nodes:  # callers precede their callees
        above, place = outermost.get(id(node.parent)), None
        if node.is_ours:
            above = ()  # the call begins below, whoever made it
        elif above is not None:
            whole_ns += node.self_ns
            if above:
                place = places.get(id(node.parent)) or above[:1] + (node.line or above[1],) + above[2:]
                places[id(node)] = place
            elif node.code is not None and _is_job(node.code):
                above = place = calls.function_of(node.code)[:3] + (False,)
        if above is not None:
            outermost[id(node)] = above
        if place is not None:
            took_ns[place] = took_ns.get(place, 0) + node.self_ns
    if not took_ns or 2 * sum(took_ns.values()) <= whole_ns:
        return None
    return list(max(took_ns, key=took_ns.get))


def _is_job(code):
    file = code.co_filename
    return not (is_library(file) or file.startswith("<frozen") or calls.is_ours(code))


def _never(_):
    """Stand in for the two callbacks of a profile function: no step begins here, and nothing follows its end."""
    return False
