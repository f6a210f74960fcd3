"""Note how the first process of a launch ended, where the launcher stayed beside it."""

from __future__ import annotations

import json
import os
import time

from tfprobe.launch import boot
from tfprobe.runs.layout import RunFolder


def write(run: RunFolder, pid: int, wait_status: int) -> None:
    """Write launches/<host>-<pid>.exit.json. Raises OSError."""
    host = os.uname().nodename
    by_signal = os.WIFSIGNALED(wait_status)
    document = {
        "schema": "tfprobe.exit/1",
        "host": host,
        "pid": pid,
        "status": None if by_signal else os.WEXITSTATUS(wait_status),
        "signal": os.WTERMSIG(wait_status) if by_signal else None,
        "unix_ns": time.time_ns(),
    }
    run.launches.mkdir(mode=0o700, exist_ok=True)
    name = f"{host}-{pid}".replace("/", "_").lstrip(".")
    path = run.launches / f"{name}.exit.json"
    boot.write_file(path, (json.dumps(document, indent=1) + "\n").encode())
