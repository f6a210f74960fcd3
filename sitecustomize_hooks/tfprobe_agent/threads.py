"""The state of each thread of the process: the steps it runs, what it is in the middle of, and its name."""

import threading
import weakref
from _operator import methodcaller
from collections import deque

from . import greenlets
from .interruptions import let_through
from .originals import ORIGINAL

# Ways to name a step that one thread remembers; a job that builds new fetches all the time starts over.
MAX_KEYS = 4096
# References to what has died are thrown away when there are so many of them.
SPARE_KEYS = 64


class OneThread:
    """What the doors need to know about a thread."""

    __slots__ = (
        "awaiting_tape",
        "collecting",
        "depth",
        "doing",
        "eager_work",
        "gradients",
        "has_tape",
        "kept",
        "known",
        "name",
        "phase",
        "role",
        "untimed",
        "watch",
        "works",
    )

    def __init__(self):
        self.depth = 0  # > 0 inside a step
        self.works = {}  # this thread's works by kind and name
        self.known = {}  # the same by the id of what they are steps of, or a key with ids in it: see `remember`
        self.kept = {}
        self.role = None  # Keras graph mode: which of its functions runs
        self.phase = None  # the Keras method this thread is inside
        self.awaiting_tape = None  # the eager work whose next step is to be sampled
        self.eager_work = None  # the eager work whose window is open
        self.gradients = []  # of steps that may be by hand, behind how many others there were; None with an optimizer
        self.has_tape = False  # one was entered since the last gradient
        self.collecting = None  # functions called inside a sampled step
        self.doing = ()  # kinds of activity under way
        self.name = None  # once asked for
        self.watch = None  # the open watch of the time after a recorded step
        self.untimed = False  # it had steps for which there was no room


# The `works` of threads that have ended, for others to go on with. A deque: whatever frees a thread's state, and
# wherever it interrupts us, may append to it.
ENDED = deque()


class _End:
    """Held by a thread's local storage alone, so it goes when the thread ends."""

    __slots__ = ("_append", "_works")

    def __init__(self, works):
        self._works = works
        self._append = ENDED.append  # globals may be gone when this is called

    def __del__(self):
        self._append(self._works)


class _Threads(ORIGINAL.local):
    """The calling thread's OneThread as `mine`. One lookup a step: a thread-local costs more than a slot."""

    def __init__(self):
        self.renew()

    def renew(self):
        """Begin anew in the calling thread, or greenlet."""
        mine = self.mine = OneThread()
        if self.__dict__.get("mine") is mine:
            self.end = _End(mine.works)

    @classmethod
    def forget_greenlets(cls):
        """Let all greenlets begin anew, where they are followed."""
        states = getattr(cls, "mine", None)
        if isinstance(states, property):
            states.fdel(None)


THREAD = _Threads()


def follow_greenlets(module):
    """From now on, keep apart the greenlets of a thread: `module` is greenlet, which the job has imported."""
    if not isinstance(getattr(_Threads, "mine", None), property):
        _Threads.mine = greenlets.state_property(module, "mine", OneThread, lambda mine: ENDED.append(mine.works))


def forget():
    """Begin anew in the calling thread, and in all greenlets: in a forked child nothing of the parent's goes on."""
    _Threads.forget_greenlets()
    THREAD.renew()


def remember(key, owner, work, things=()):
    """Let this thread find `work` in `known` under `key`, whose ids are those of `owner` or of `things`.

    An id names a thing while it lives, so the entry goes with the first of them. Nothing of the job's is kept alive but
    strings: a tensor leads to its graph and from there, through a py_function, to whatever the job put there.
    """
    mine = THREAD.mine
    known, kept = mine.known, mine.kept
    if work is None:
        return
    if len(known) > MAX_KEYS:
        known.clear()
    if len(kept) > 2 * len(known) + SPARE_KEYS:
        mine.kept = kept = {key: references for key, references in kept.items() if key in known}
    try:
        watched = [thing if isinstance(thing, str) else entry_of(thing, known, key) for thing in things]
        kept[key] = entry_of(owner, known, key), watched
    except TypeError:
        let_through()
        return  # something that cannot be watched: its work is looked up by name at each step
    known[key] = work


class _Entry(weakref.ref):
    """A weak reference that takes its entry out of a table. In C alone: an exception that the job throws into a
    callback written in Python would be printed and lost."""

    __slots__ = ("pop",)


def entry_of(thing, table, key):
    """Return a weak reference that takes `key` out of `table` when the thing dies; raises TypeError."""
    entry = _Entry(thing, methodcaller("pop", key, None))
    entry.pop = table.pop
    return entry


def thread_name():
    """Return the name of the calling thread, as it was when first asked for."""
    mine = THREAD.mine
    if mine.name is None:
        mine.name = this_thread()[0]
    return mine.name


def name_of(ident):
    """Return the name of the thread with that ident, "" of one that has ended."""
    if ident == threading.get_ident():
        return thread_name()
    return getattr(threading._active.get(ident), "name", "")


def python_threads():
    """Return the threads that Python knows, as `enumerate` does, but for those that are being started.

    It takes no lock: a signal handler of the job may run a step while the code it has interrupted holds that one.
    """
    return list(threading._active.copy().values())


def this_thread():
    """Return name and id of the calling thread. `current_thread` would enter one made in C++ in the job's own list."""
    ident = threading.get_ident()
    thread = threading._active.get(ident)
    if thread is None:
        return "(not made by Python)", ident
    return thread.name, getattr(thread, "native_id", None) or ident
