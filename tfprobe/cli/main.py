"""The `tfprobe` program: picks a command, and turns every error into one paragraph and a status."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO, cast

from tfprobe.errors import TfprobeError, UnreadableInput
from tfprobe.printable import Printed, printable

INTERRUPTED = 128 + 2
# What click ends with when the reader of a pipe has gone.
_BROKEN_PIPE = 1
# A command makes objects by the million and next to no cycles: at the usual 700 a tenth of its time
# goes into looking for some.
_OBJECTS_BETWEEN_COLLECTIONS = 100_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status. All that it prints passes one filter."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with _filtered_streams():
        return _status_of(given)


@contextmanager
def _filtered_streams() -> Iterator[None]:
    # A program without one of the streams has None in its place.
    streams = sys.stdout, sys.stderr
    filtered = [stream and cast(TextIO, Printed(stream)) for stream in streams]
    sys.stdout, sys.stderr = filtered
    try:
        yield
    finally:
        # Of a closed pipe click puts a stream in their place that does not complain at exit.
        if sys.stdout is filtered[0]:
            sys.stdout = streams[0]
        if sys.stderr is filtered[1]:
            sys.stderr = streams[1]


def _status_of(given: list[str]) -> int:
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        status = _dispatch(given)
        _flush()
    except TfprobeError as problem:
        complain(str(problem))
        return problem.exit_code
    except BrokenPipeError:
        _abandon_stdout()
        return _BROKEN_PIPE
    except Exception as problem:
        failure = _failed_disk(problem)
        complain(failure or _unexpected(problem))
        return UnreadableInput.exit_code if failure else TfprobeError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def complain(text: str) -> None:
    """Write one paragraph to stderr, if there is one. A line break in it is of a name in it."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"tfprobe: {printable(text)}\n")
        sys.stderr.flush()
    except OSError:
        # stderr is closed; the command goes on.
        pass


def _dispatch(arguments: list[str]) -> int:
    # `run` starts a job, so it does without click, whose import is half of all its time; and the
    # others do without what only `run` needs.
    if arguments[:1] == ["run"]:
        from tfprobe.cli.record import run

        if not run.wants_help(arguments[1:]):
            return run.main(arguments[1:])
    from tfprobe.cli import commands

    return commands.main(arguments)


def _failed_disk(problem: Exception) -> str:
    """Say which file a disk or file server failed at: any call may fail so, at any path."""
    from tfprobe.runs.layout import FAILURES

    if not isinstance(problem, OSError) or problem.errno not in FAILURES:
        return ""
    what = problem.filename or "A file"
    return f"{what} cannot be used: {problem.strerror}. The disk or file server failed."


def _unexpected(problem: Exception) -> str:
    """Name the place, so that one paragraph is enough for a bug report."""
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "nowhere"
    return f"{type(problem).__name__}: {problem} (at {place}). This is a bug in tfprobe."


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _abandon_stdout() -> None:
    # Python flushes stdout once more at exit and would complain about the closed pipe.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
