"""`tfprobe capture` ends at once when it is asked to, and leaves neither files nor a profiler."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from tests.process.launching import PATIENCE_S, ROOT, Launcher, environment
from tests.support.profiler_service import serving


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, "tfprobe: Interrupted; nothing was kept of the recording.\n"),
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


def test_without_the_extra_it_says_what_to_install(launcher: Launcher) -> None:
    """In one paragraph; its help is there without."""
    shadow = launcher.write("shadow/grpc/__init__.py", "raise ImportError('no gRPC')")
    variables = {"PYTHONPATH": f"{shadow.parents[1]}:{ROOT}"}

    ended = launcher.tfprobe("capture", "localhost:1", "-o", launcher.output, env=variables)
    helped = launcher.tfprobe("capture", "--help", env=variables)

    assert (ended.status, ended.stdout) == (2, b"")
    assert ended.stderr == (
        b"tfprobe: `tfprobe capture` needs gRPC, which is not installed (no gRPC). "
        b"Install it with `pip install 'tfprobe[capture]'`.\n"
    )
    assert launcher.runs() == []
    assert helped.status == 0
    assert b"pip install 'tfprobe[capture]'" in helped.stdout
