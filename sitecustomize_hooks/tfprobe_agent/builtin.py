"""Put something before a function of `os` that is written in C, so that nothing else about it changes.

A Python function in its place would become a method where a class has it as an attribute, and would name itself in the
errors about wrong arguments.
"""

import os


def precede(name, note, undo=None):
    """Have `note` called with the same arguments before each call of `os.<name>`, and `undo` after one that raised.

    Neither may raise anything of ours.
    """
    setattr(os, name, _Preceded(getattr(os, name), note, undo))


class _Preceded:
    def __init__(self, original, note, undo):
        self._original = original
        self._note = note
        self._undo = undo
        self.__doc__ = original.__doc__
        self.__module__ = "os"  # where pickle finds it

    def __call__(self, *args, **kwargs):
        self._note(args, kwargs)
        try:
            return self._original(*args, **kwargs)
        except BaseException as error:
            if self._undo is not None:
                self._undo()
            # As `interruptions.leave_traceback` does; most processes that come here never import that.
            error.__traceback__ = error.__traceback__.tb_next
            raise

    @property
    def __class__(self):
        return type(self._original)

    def __getattr__(self, name):
        return getattr(self._original, name)

    def __repr__(self):
        return repr(self._original)

    def __reduce_ex__(self, _protocol):
        return self._original.__name__
