"""`tfprobe capture` ends at once when it is asked to, and leaves neither files nor a profiler."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from tests.process.launching import PATIENCE_S, Launcher, environment
from tests.support.profiler_service import serving


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, "tfprobe: interrupted; nothing of the recording is kept.\n"),
        (signal.SIGTERM, 143, ""),
    ],
)
def test_an_interrupted_recording_leaves_nothing(
    number: signal.Signals, status: int, said: str, launcher: Launcher
) -> None:
    """Neither a run on disk, nor a profiler in the job."""
    ordered, cancelled = threading.Event(), threading.Event()

    def answer(request, context):
        context.add_callback(cancelled.set)
        ordered.set()
        cancelled.wait(PATIENCE_S)
        return b""

    with serving(answer) as service:
        command = [launcher.program, "capture", service.address, "-o", launcher.output]
        process = subprocess.Popen(
            command, env=environment({}), stderr=subprocess.PIPE, cwd=launcher.work, text=True
        )
        assert ordered.wait(PATIENCE_S)
        process.send_signal(number)
        _, told = process.communicate(timeout=PATIENCE_S)
        assert cancelled.wait(PATIENCE_S)

    assert (process.returncode, told) == (status, said)
    assert launcher.runs() == []
