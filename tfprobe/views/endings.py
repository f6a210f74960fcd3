"""Say in words how a process or a run stands, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

from tfprobe.model.profile import Ending, Process, Raised, Run

_STOPPED = "stopped, by a signal such as SIGSTOP or a debugger; SIGCONT lets it go on"
_KILLED = (
    "killed: gone without a note of its end, by a signal, with its machine, or its disk failed"
)
_NOBODY = "nobody here can tell"


def of_process(process: Process) -> str:
    """Return the state of a process, of one that failed or was ended with the cause."""
    return _words(process.state, process.ending)


def of_run(run: Run, processes: Iterable[Process]) -> str:
    """Return the state of a run; of one that failed with the first such exception there is."""
    ending = run.ending
    if run.state == "failed":
        failed = (each.ending for each in processes if each.state == run.state)
        ending = next((each for each in failed if each.exception), ending)
    if run.state == "stopped":
        return _STOPPED
    if run.state == "killed" and ending.signal is None:
        return _KILLED
    return _words(run.state, ending, run.why_unknown or _NOBODY)


def document(ending: Ending) -> dict[str, Any]:
    """Return what documents have of an ending. Any: a JSON document."""
    raised = ending.exception
    told = raised and {
        "type": raised.type,
        "message": raised.message,
        "file": raised.file,
        "line": raised.line,
    }
    return {"exit_status": ending.status, "exit_signal": ending.signal, "exception": told}


def exception(raised: Raised) -> str:
    """Return an exception in one line, with its place."""
    said = f"{raised.type}: {raised.message}" if raised.message else raised.type
    return said if raised.file is None else f"{said} ({raised.file}:{raised.line})"


def _words(state: str, ending: Ending, why_unknown: str = "") -> str:
    if state == "failed" and ending.exception is not None:
        return f"failed: {exception(ending.exception)}"
    if state == "failed" and ending.status is not None:
        return f"failed with exit status {ending.status}"
    if state == "terminated" and ending.signal is not None:
        return f"terminated by its own job, by {_signal(ending.signal)}"
    if state == "killed" and ending.signal is not None:
        return f"killed by {_signal(ending.signal)}"
    return f"state unknown: {why_unknown}" if state == "unknown" and why_unknown else state


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
