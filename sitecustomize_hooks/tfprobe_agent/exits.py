"""How this process ends: the uncaught exception, the exit status, and exits that run no exit hooks.

`sys.excepthook`, `sys.exit` and signal handlers stay the job's. The interpreter stores the exception that ended the
program in `sys.last_value` whatever the hook does; the C library passes the exit status to its `on_exit` handlers.
"""

import os
import re
import sys

from . import redact
from .core.guard import failed
from .core.recorder import CURRENT
from .core.steps_layout import ENDING_WORD, EXIT_MONO_WORD, EXIT_WORD, STATUS_WORD
from .interruptions import let_through
from .os_calls import precede
from .unpatched import UNPATCHED

# Values of the ending word.
EXIT_HOOKS, EXCEPTION, OS_EXIT, REPLACED = 1, 2, 3, 4
# Value of the status word until the C library stores a status there.
STATUS_FOLLOWS = 1
MESSAGE_LENGTH = 300
PATH_LENGTH = 1000
# Characters of a message that are examined: messages of TensorFlow begin with a stack of a hundred lines.
MAX_MESSAGE_LENGTH = 1000000
# Beginnings of messages of TensorFlow that have a stack before the reason, as of 1.15, 2.2 and 2.8.
_WITH_STACK = ("in converted code:", "in user code:", "Graph execution error:")
# A line of such a stack, its source line if there is one, and the name of the op after the last one.
_FRAME = re.compile(r'^[ \t]+(?:File ".*", line \d+, in |\S.*\.py:\d+ ).*\n(?: {6,}.*\n)?(?:Node: .*\n)?', re.MULTILINE)
# What Keras writes to make a part of a message bold.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# Flags of the code of generators, coroutines and asynchronous generators: somebody called them.
_SUSPENDING = 0x20 | 0x80 | 0x200
# None of a program's own files is in such a directory.
_INSTALLED = ("site-packages", "dist-packages")


def at_exit():
    """Note that the exit hooks run, and after which exception; arrange for the exit status to be stored.

    This also holds for a process in which the agent is disabled: its end is recorded all the same.
    """
    try:
        recorder = _own_recorder()
        if recorder is not None:
            error = _last_exception()
            if error is not None:
                _note_exception(recorder, error)
            _note(recorder, EXIT_HOOKS)
            if not recorder.steps.words[EXIT_WORD]:
                recorder.steps.note_exit()
            if _store_status_at_exit(recorder.steps):
                recorder.steps.put(STATUS_WORD, STATUS_FOLLOWS)
            _write(recorder)
    except Exception:
        failed("exit")


def patch():
    """Note the status of os._exit, by which multiprocessing ends forked children, and that os.exec* takes over.

    Nothing else sees either. All of os.exec* end in these two functions.
    """
    precede("_exit", _leaves)
    for name in ("execv", "execve"):
        precede(name, _replaces, undo=_goes_on)


def _leaves(args, kwargs):
    try:
        _leave(args[0] if args else kwargs.get("status"))
    except Exception:
        failed("os._exit")


class _BeforeExec:
    """The words that an exec overwrites, to restore them if it fails, for example because there is no such program."""

    ending = exit_ns = exit_mono_ns = 0


_BEFORE = _BeforeExec()


def _replaces(_args, _kwargs):
    try:
        recorder = _own_recorder()
        if recorder is not None and recorder.steps.words[ENDING_WORD] != REPLACED:
            words = recorder.steps.words
            _BEFORE.ending, _BEFORE.exit_ns, _BEFORE.exit_mono_ns = (
                words[ENDING_WORD], words[EXIT_WORD], words[EXIT_MONO_WORD],
            )  # fmt: skip
            recorder.steps.note_exit()
            recorder.steps.put(ENDING_WORD, REPLACED)
            _write(recorder)
    except Exception:
        failed("os.exec")


def _goes_on():
    try:
        recorder = _own_recorder()
        if recorder is not None:
            recorder.steps.put(ENDING_WORD, _BEFORE.ending)
            recorder.steps.put(EXIT_WORD, _BEFORE.exit_ns)
            recorder.steps.put(EXIT_MONO_WORD, _BEFORE.exit_mono_ns)
    except Exception:
        failed("os.exec")


def watch_multiprocessing():
    """Note the exceptions of multiprocessing children, which print them themselves, in the hooks that end them.

    Python 3.13 calls these hooks when the exception is gone: there only the exit status shows it.

    A forked child clears those hooks before it runs its target, and calls what is registered here; a spawned one, as of
    Python 3.11, does neither.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is not None and _WATCHED.util is not util:
        _WATCHED.util = util
        util.register_after_fork(_child_ends, _child_begins)
        _child_begins(_child_ends)


class _Watched:
    """The module that is watched, and whether it has ended this child without an exception."""

    util = None
    is_done = False


_WATCHED = _Watched()


def _child_begins(callback):
    try:
        _WATCHED.util.Finalize(None, callback, exitpriority=-sys.maxsize)
    except Exception:
        failed("begin of child")


def _child_ends():
    try:
        recorder, error = _own_recorder(), sys.exc_info()[1]
        _WATCHED.is_done = error is None
        if recorder is not None and error is not None and not isinstance(error, SystemExit):
            _note_exception(recorder, error)
    except Exception:
        failed("end of child")


def _leave(status):
    recorder = _own_recorder()
    if recorder is None or not isinstance(status, int):
        return
    if _WATCHED.is_done and sys.version_info < (3, 7):
        status = 0  # until Python 3.7: a fork server ends all its children by os._exit(1)
    _note(recorder, OS_EXIT)
    recorder.steps.note_exit()
    recorder.steps.put(STATUS_WORD, (status & 0xFFFFFFFF) << 16 | 0x330E)
    _write(recorder)


def _write(recorder):
    """Write lines that wait because the disk is slow or has failed."""
    recorder.process_dir.write_lines()
    recorder.steps.write()


def _own_recorder():
    """Return the recorder of this very process: a forked child inherits its parent's exit hooks."""
    recorder = CURRENT.recorder
    return recorder if recorder is not None and recorder.pid == UNPATCHED.getpid() else None


def _note(recorder, ending):
    if recorder.steps.words[ENDING_WORD] != EXCEPTION:
        recorder.steps.put(ENDING_WORD, ending)


def _last_exception():
    """Return the exception that ended the program, or None.

    Notebooks, debuggers and test runners store exceptions there that they have caught. They run the job's code from
    frames of their own, whereas the traceback of an uncaught exception begins at the outermost frame.
    """
    traceback = getattr(sys, "last_traceback", None)
    if traceback is None or traceback.tb_frame.f_back is not None:
        return None
    if traceback.tb_frame.f_code.co_flags & _SUSPENDING:
        return None  # IPython runs cells in a coroutine, whose frame has no caller once it is done
    return getattr(sys, "last_value", None)


def _note_exception(recorder, error):
    recorder.steps.put(ENDING_WORD, EXCEPTION)
    path, line, function = _raised_at(error.__traceback__)
    recorder.process_dir.event(
        "exception", type=_type_name(type(error)), message=_message(error), file=path, line=line, function=function
    )  # fmt: skip


def _type_name(kind):
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__qualname__
    )


def _message(error):
    """Return the message in one line, secrets masked before it is cut: a cut could leave half of a secret."""
    try:
        text = str(error)
    except Exception:
        let_through()
        return ""  # the job's own __str__ failed
    text = _STYLE.sub("", _reason(text[:MAX_MESSAGE_LENGTH], type(error).__name__))
    return redact.text(" ".join(text[: 100 * MESSAGE_LENGTH].split()))[:MESSAGE_LENGTH]


def _reason(text, type_name):
    """Return the part of a message that follows the stack of a traced function, without the type if it repeats it."""
    if not text.startswith(_WITH_STACK):
        return text
    frames = list(_FRAME.finditer(text))
    reason = text[frames[-1].end() :].strip() if frames else ""
    if reason.startswith(type_name + ": "):
        reason = reason[len(type_name) + 2 :]
    return reason or text


def _raised_at(traceback):
    """Return file, line and function of the innermost frame in the program's own files, or else of the innermost."""
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append((code.co_filename[:PATH_LENGTH], traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    own = [place for place in places if _is_of_program(place[0])]
    return (own or places or [(None, None, None)])[-1]


def _is_of_program(path):
    library = os.path.dirname(os.__file__) + os.sep
    is_installed = any([os.sep + name + os.sep in path for name in _INSTALLED])
    return not (is_installed or path.startswith((library, "<frozen", os.path.dirname(__file__) + os.sep)))


def _store_status_at_exit(steps):
    """Arrange for the C library to store the exit status in the status word; return whether it will.

    `on_exit` calls a C function with the status and a pointer. Python is gone by then, so the function must be one of
    the C library that stores its number behind a pointer: srand48_r, by POSIX as status << 16 | 0x330e, in three words.
    It is registered at the last moment, so that no forked child inherits it.
    """
    ctypes = sys.modules.get("ctypes")  # NumPy imports it
    page = ctypes and steps.status_page()
    if page is None:
        return False
    try:
        library = ctypes.CDLL(None)
        on_exit, store = library.on_exit, library.srand48_r
    except (OSError, AttributeError):
        let_through()
        return False  # not glibc
    window = ctypes.c_char.from_buffer(page, STATUS_WORD * 8)
    # The interpreter would unmap it before that.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(page))
    return on_exit(store, ctypes.c_void_p(ctypes.addressof(window))) == 0
