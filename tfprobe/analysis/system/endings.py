"""Describe the state of a process or a run, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Any

from tfprobe.profile.profile import Ending, Process, Raised, Run

_STOPPED = "stopped, by a signal such as SIGSTOP or a debugger; SIGCONT lets it go on"
_GONE = {
    "killed": ": gone without a note of its end, by a signal, with its machine, or its disk failed"
}
_REPLACED = "replaced itself by another program, in the same process (os.exec)"
_NOBODY = "cannot be determined from here"


def process_state(process: Process) -> str:
    """Return the state of a process, with the cause if it failed or was killed."""
    return _words(process.state, process.ending)


def run_state(run: Run, processes: Iterable[Process]) -> str:
    """Return the state of a run, with the process and the cause if it failed or was killed.

    Of several such processes, the first that ended by an exception is named, else the first.
    """
    if run.state == "stopped":
        return _STOPPED
    known = tuple(processes)
    same = [process for process in known if process.state == run.state in ("failed", "killed")]
    if not same:
        words = _words(run.state, run.ending, run.why_unknown or _NOBODY)
        return words + _GONE.get(words, "")
    shown = next((process for process in same if process.ending.exception), same[0])
    ending = run.ending if shown.ending == Ending() else shown.ending
    who = "" if len(known) == 1 else f": {_which(shown, same, known)}"
    return f"{run.state}{who}{_cause(run.state, ending) or _GONE.get(run.state, '')}"


def ending_document(ending: Ending) -> dict[str, Any]:
    """Return an ending as documents have it. Any: a JSON document."""
    raised = ending.exception
    exception = raised and {
        "type": raised.type,
        "message": raised.message,
        "file": raised.file,
        "line": raised.line,
    }
    return {"exit_status": ending.status, "exit_signal": ending.signal, "exception": exception}


def exception_line(raised: Raised) -> str:
    """Return an exception in one line, with its file and line."""
    text = f"{raised.type}: {raised.message}" if raised.message else raised.type
    return text if raised.file is None else f"{text} ({raised.file}:{raised.line})"


def _words(state: str, ending: Ending, why_unknown: str = "") -> str:
    if state == "replaced":
        return _REPLACED
    if state == "terminated" and ending.signal is not None:
        return f"terminated by its own job, by {_signal(ending.signal)}"
    if state == "unknown" and why_unknown:
        return f"state unknown: {why_unknown}"
    return f"{state}{_cause(state, ending)}"


def _cause(state: str, ending: Ending) -> str:
    """Return why a process failed, or what killed it, as a suffix of its state."""
    if state == "failed" and ending.exception is not None:
        return f": {exception_line(ending.exception)}"
    if state == "failed" and ending.status is not None:
        return f" with exit status {ending.status}"
    if state == "killed" and ending.signal is not None:
        return f" by {_signal(ending.signal)}"
    return ""


def _which(shown: Process, same: Sequence[Process], known: Sequence[Process]) -> str:
    if len(same) == 1:
        return shown.place
    number = f"all {len(same)}" if len(same) == len(known) else f"{len(same)} of {len(known)}"
    return f"{number} processes, first {shown.place}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
