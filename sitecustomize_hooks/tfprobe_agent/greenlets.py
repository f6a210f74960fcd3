"""Greenlets: one may be left in the middle of a step for another of its thread, so each has a state of its own.

In a process that has the module `greenlet`, which gevent and eventlet import, a step finds its state by the greenlet
instead of the thread; that costs 0.2 us.
"""

import weakref

# Greenlets that have ended may be kept by the job: one looks for them when there are this many more states.
LOOK_AT = 64


class _States:
    """States by the id of their greenlet; a weak reference takes them out, so that no id is met again."""

    def __init__(self, end):
        self.by_id = {}
        self._end = end  # called with the state of a greenlet that has ended
        self._look_at = LOOK_AT

    def put(self, greenlet, state):
        """Let this be the state of the greenlet."""
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
        self._look_at = LOOK_AT + 2 * len(self.by_id)


def state_property(module, name, make, end):
    """Return a property for the class of a thread-local: the state of the calling greenlet, by `make()` at first.

    That of a thread's first greenlet is the thread's own, an attribute of the thread-local with this `name`.
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
        """In a forked child: its greenlets go on, the steps that they have recorded are its parent's."""
        by_id.clear()

    return property(find, put, forget)
