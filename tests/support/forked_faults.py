"""Run a workload in a forked child for each fault of the agent, in a job of Python 3.6 or later."""

import os
import pickle
import sys

# Children that run at a time.
AT_ONCE = 2


def run(workload, prefix="", elsewhere=None):
    """Print what the workload prints and how it ends, then each fault that makes a difference.

    Of the functions of the agent that are entered, those whose name begins with `prefix` are made
    to fail, and those that the workload `elsewhere` does not enter, if there is one.
    """
    others = None if elsewhere is None else in_child(elsewhere, None)[2]
    status, printed, entered = in_child(workload, None)
    print(printed, end="")
    print(f"status {status}")
    if not entered:
        return
    entered = [
        name
        for name in entered
        if name.startswith(prefix) or (others is not None and name not in others)
    ]
    print(f"FAULTS {len(entered)}", file=sys.stderr)
    running = []
    for fault in entered + [None] * AT_ONCE:
        if fault is not None:
            running.append((fault, start(workload, fault)))
        if running and (fault is None or len(running) >= AT_ONCE):
            fault, child = running.pop(0)
            found = outcome(*child)
            if found[:2] != (status, printed):
                print(f"FAULT {fault}: status {found[0]}, printed {found[1]!r}")


def in_child(workload, fault):
    """Return (exit status, what was printed, functions of the agent entered) of a forked child."""
    return outcome(*start(workload, fault))


def start(workload, fault):
    """Return (pid, pipe) of a forked child that runs the workload with this fault."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            faults = sys.modules.get("tfprobe_agent.faults")
            if faults is not None:
                faults.armed = fault
                faults.entered.clear()
            sys.stdout = os.fdopen(os.dup(writer), "w", 1)
            workload()
            sys.stdout.flush()
            entered = dict(faults.entered) if faults is not None else {}
            os.write(writer, b"\0" + pickle.dumps(sorted(entered)))
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    return pid, reader


def outcome(pid, reader):
    """Wait for a child and return what is left of it."""
    with os.fdopen(reader, "rb") as pipe:
        printed, _, entered = pipe.read().partition(b"\0")
    _, status = os.waitpid(pid, 0)
    return status, printed.decode(), pickle.loads(entered) if entered else []
