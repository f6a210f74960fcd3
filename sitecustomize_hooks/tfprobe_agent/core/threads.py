"""The state of each thread of the process: the loops it runs, what it is in the middle of, and its name.

A greenlet may be left in the middle of a step for another of its thread, so in a process that has the module
`greenlet`, which gevent and eventlet import, each greenlet has a state of its own. A step finds its state by the
greenlet instead of the thread then, which costs 0.2 us.
"""

import threading
import weakref
from _operator import methodcaller
from collections import deque

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED

# Keys in one thread's cache of loops; a job that builds new fetches all the time starts over.
MAX_KEYS = 4096
# References to dead objects are dropped when there are this many.
SPARE_KEYS = 64


class ThreadState:
    """What the step wrappers need to know about a thread."""

    __slots__ = (
        "awaiting_tape",
        "cache_references",
        "collecting",
        "depth",
        "doing",
        "eager_loop",
        "gradients",
        "has_tape",
        "loop_cache",
        "loops",
        "name",
        "phase",
        "queued",
        "role",
        "torch",
        "untimed",
        "waited_loop",
        "watch",
    )

    def __init__(self):
        self.depth = 0  # > 0 inside a step
        self.loops = {}  # this thread's loops by kind and name
        self.loop_cache = {}  # the same by the id of what their steps run, or a key with ids in it: see `cache_loop`
        self.cache_references = {}
        self.role = None  # Keras graph mode: which of its functions runs
        self.phase = None  # the Keras method this thread is inside
        self.awaiting_tape = None  # the eager loop whose next step is to be traced
        self.eager_loop = None  # the eager loop whose window is open
        self.gradients = []  # of steps that may end at them, after the number of other steps; None with an optimizer
        self.has_tape = False  # one was entered since the last gradient
        self.collecting = None  # functions called inside a traced step
        self.doing = ()  # kinds of activity under way
        self.name = None  # once needed
        self.watch = None  # the open watch of the gap after a step
        self.queued = []  # its loops whose calls only queue their steps: see queued_steps
        self.waited_loop = None  # the one of these that the job waited for last
        self.torch = None  # what frameworks/torch knows of the thread, once it has run something
        self.untimed = False  # it had steps for which there was no room


# The `loops` of threads that have ended, for other threads to reuse. A deque: whatever frees a thread's state, at any
# point of the agent's code, may append to it.
ENDED = deque()


class _End:
    """Referenced by a thread's local storage alone, so it is freed when the thread ends."""

    __slots__ = ("_append", "_loops")

    def __init__(self, loops):
        self._loops = loops
        self._append = ENDED.append  # globals may be gone when this is called

    def __del__(self):
        self._append(self._loops)


class _Threads(UNPATCHED.local):
    """The calling thread's ThreadState as `current`. One lookup per step: a thread-local costs more than a slot."""

    def __init__(self):
        self.renew()

    def renew(self):
        """Start with a new state in the calling thread, or greenlet."""
        current = self.current = ThreadState()
        if self.__dict__.get("current") is current:
            self.end = _End(current.loops)

    @classmethod
    def forget_greenlets(cls):
        """Start with new states in all greenlets, if they are followed."""
        states = getattr(cls, "current", None)
        if isinstance(states, property):
            states.fdel(None)


THREAD = _Threads()


def follow_greenlets(module):
    """Distinguish the greenlets of a thread from now on; `module` is greenlet, which the job has imported."""
    if not isinstance(getattr(_Threads, "current", None), property):
        _Threads.current = state_property(module, "current", ThreadState, lambda current: ENDED.append(current.loops))


def forget():
    """Start with new states in the calling thread and all greenlets, in a forked child."""
    _Threads.forget_greenlets()
    THREAD.renew()


def cache_loop(key, owner, loop, things=()):
    """Let this thread find `loop` in `loop_cache` under `key`, whose ids are those of `owner` or of `things`.

    An id identifies an object while it lives, so the entry is removed with the first of them. No object of the job is
    kept alive except strings: a tensor leads to its graph and from there, through a py_function, to anything.
    """
    current = THREAD.current
    loop_cache, references = current.loop_cache, current.cache_references
    if loop is None:
        return
    if len(loop_cache) > MAX_KEYS:
        loop_cache.clear()
    if len(references) > 2 * len(loop_cache) + SPARE_KEYS:
        current.cache_references = references = {key: kept for key, kept in references.items() if key in loop_cache}
    try:
        watched = [thing if isinstance(thing, str) else entry_of(thing, loop_cache, key) for thing in things]
        references[key] = entry_of(owner, loop_cache, key), watched
    except TypeError:
        let_through()
        return  # no weak reference is possible: the loop is looked up by name at each step
    loop_cache[key] = loop


class _Entry(weakref.ref):
    """A weak reference that removes its entry from a table, by C functions only.

    An exception that the job throws into a callback written in Python would be printed and lost.
    """

    __slots__ = ("pop",)


def entry_of(thing, table, key):
    """Return a weak reference that removes `key` from `table` when the object dies; raise TypeError if impossible."""
    entry = _Entry(thing, methodcaller("pop", key, None))
    entry.pop = table.pop
    return entry


def thread_name():
    """Return the name of the calling thread, as it was at the first call."""
    current = THREAD.current
    if current.name is None:
        current.name = this_thread()[0]
    return current.name


def name_of(ident):
    """Return the name of the thread with that ident, "" if it has ended."""
    if ident == threading.get_ident():
        return thread_name()
    return getattr(threading._active.get(ident), "name", "")


def python_threads():
    """Return the threads that Python knows, like `enumerate`, except those that are being started.

    Takes no lock: a signal handler of the job may run a step while the interrupted code holds that lock.
    """
    return list(threading._active.copy().values())


def this_thread():
    """Return name and id of the calling thread. `current_thread` would add a thread made in C++ to the job's list."""
    ident = threading.get_ident()
    thread = threading._active.get(ident)
    if thread is None:
        return "(not made by Python)", ident
    return thread.name, getattr(thread, "native_id", None) or ident


# Greenlets that have ended may be kept alive by the job: they are searched for after this many more states.
GREENLETS_AT_A_LOOK = 64


class _States:
    """States by the id of their greenlet; a weak reference removes them, so that no id is met again."""

    def __init__(self, end):
        self.by_id = {}
        self._end = end  # called with the state of a greenlet that has ended
        self._look_at = GREENLETS_AT_A_LOOK

    def put(self, greenlet, state):
        """Set the state of the greenlet."""
        if len(self.by_id) >= self._look_at:
            self._free_dead()
        key = id(greenlet)
        self.by_id[key] = weakref.ref(greenlet, lambda _: self._forget(key)), state

    def _forget(self, key):
        entry = self.by_id.pop(key, None)
        if entry is not None:
            self._end(entry[1])

    def _free_dead(self):
        """Free the states of greenlets that have ended, each time the number of states has doubled."""
        for key, (reference, _) in list(self.by_id.items()):
            greenlet = reference()
            if greenlet is None or greenlet.dead:
                self._forget(key)
        self._look_at = GREENLETS_AT_A_LOOK + 2 * len(self.by_id)


def state_property(module, name, make, end):
    """Return a property for the class of a thread-local: the state of the calling greenlet, created by `make()`.

    The state of a thread's first greenlet is the thread's own, an attribute of the thread-local with this `name`.
    """
    getcurrent = module.getcurrent
    states = _States(end)
    by_id = states.by_id

    def find(local):
        greenlet = getcurrent()
        entry = by_id.get(id(greenlet))
        if entry is not None:
            return entry[1]
        if greenlet.parent is not None:
            states.put(greenlet, make())
            return by_id[id(greenlet)][1]
        if name not in local.__dict__:
            local.renew()
        return local.__dict__[name]

    def put(local, state):
        greenlet = getcurrent()
        if greenlet.parent is None:
            local.__dict__[name] = state
        else:
            states.put(greenlet, state)

    def forget(_local):
        """In a forked child: its greenlets go on, but the steps that they have recorded are its parent's."""
        by_id.clear()

    return property(find, put, forget)
