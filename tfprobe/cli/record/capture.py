"""`tfprobe capture`: record a job that tfprobe did not start, through its profiler service."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tfprobe.cli import common
from tfprobe.cli.main import complain
from tfprobe.errors import NoAnswer, UsageError
from tfprobe.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from tfprobe.attach.service.client import Address
    from tfprobe.attach.service.directory import Draft, ServiceRecording
    from tfprobe.attach.service.exchange import ExchangeFolder, SharedFolder
    from tfprobe.attach.service.recording import WantedSteps
    from tfprobe.runs.layout import ProcessFolder, RunFolder

_INTERRUPTED = 128 + 2
_STEPS = 10
_TIMEOUT_S = 60.0
# Traces grow by some 10 MB a second, and beyond 2 GB nothing can pack them any more.
_LONGEST_S = 3600.0
_STEPS_HELP = f"Record until N whole steps have been seen.  [default: {_STEPS}]"
_SHARED_HELP = (
    "Exchange traces through this directory, which the service and tfprobe both see; "
    "REMOTE=LOCAL if it has another path here."
)


@click.command("capture")
@click.argument("services", metavar="HOST:PORT[,HOST:PORT...]")
@click.option("--steps", type=click.IntRange(1), metavar="N", help=_STEPS_HELP)
@click.option("--duration", type=float, metavar="S", help="Record for S seconds instead.")
@click.option(
    "--timeout", type=float, metavar="S", help="Wait at most S seconds for steps.  [default: 60]"
)
@click.option("--server-directory", metavar="PATH", help=_SHARED_HELP)
@common.output_option
@common.json_option
def command(
    services: str,
    steps: int | None,
    duration: float | None,
    timeout: float | None,
    server_directory: str | None,
    output: str | None,
    as_json: bool,
) -> int:
    """Record a running TensorFlow job through its profiler service.

    The job has called tf.profiler.experimental.server.start(PORT), or is TensorFlow Serving, on
    its gRPC port. Several services, such as those of the workers of one job, are recorded at the
    same time, as the ranks of one run. All other commands can read the run.

    This requires gRPC: pip install 'tfprobe[capture]'.

    The exit status is 1 if fewer steps were seen than requested; those are kept.
    """
    _require_grpc()
    from tfprobe.attach.service import exchange
    from tfprobe.attach.service.client import addresses

    chosen = addresses(services)
    wanted = _wanted(steps, duration, timeout)
    shared = exchange.shared_folder(server_directory) if server_directory is not None else None
    try:
        with _terminated_as_interrupted():
            made = _recorded(chosen, wanted, common.output_directory(output), shared)
    except KeyboardInterrupt:
        complain("Interrupted; nothing was kept of the recording.")
        return _INTERRUPTED
    if as_json:
        common.show_json(_document(made, wanted))
    else:
        common.show(_text(made))
    return _status(made.recordings, wanted)


def _require_grpc() -> None:
    """Raise UsageError where gRPC is not installed. No other command needs it; it takes 0.1 s."""
    try:
        importlib.import_module("grpc")
    except ImportError as exc:
        raise UsageError(
            f"`tfprobe capture` needs gRPC, which is not installed ({exc}).",
            hint="Install it with `pip install 'tfprobe[capture]'`.",
        ) from exc


@dataclass(frozen=True, slots=True)
class _Made:
    """A run that was made, and what of each process is in it."""

    run: RunFolder
    folders: Sequence[ProcessFolder]
    recordings: Sequence[ServiceRecording]


def _recorded(
    services: Sequence[Address], wanted: WantedSteps, output: Path, shared: SharedFolder | None
) -> _Made:
    """Record into a new run; whatever happens, no half of one is left."""
    from tfprobe.attach.service import directory, recording
    from tfprobe.profile.reader.service_trace import whole_steps

    draft = directory.draft(output, services[0])
    named = ", ".join(map(str, services))
    try:
        with common.progress(f"Recording {named}"), _exchange(shared, draft) as folder:
            recordings = recording.record(services, wanted, folder, count_steps=whole_steps)
        run, folders = directory.keep(draft, recordings, ["tfprobe", *sys.argv[1:]])
        return _Made(run, folders, recordings)
    finally:
        directory.discard(draft)


def _wanted(steps: int | None, duration_s: float | None, timeout_s: float | None) -> WantedSteps:
    from tfprobe.attach.service.recording import WantedSteps

    if steps is not None and duration_s is not None:
        raise UsageError("--steps and --duration cannot be combined.")
    if timeout_s is not None and duration_s is not None:
        raise UsageError("--timeout and --duration cannot be combined.")
    for name, value_s in (("--duration", duration_s), ("--timeout", timeout_s)):
        if value_s is not None and not 0 < value_s <= _LONGEST_S:
            raise UsageError(
                f"{name} {value_s:g} is out of range: use up to {_LONGEST_S:.0f} seconds."
            )
    if duration_s is not None:
        return WantedSteps(None, duration_s)
    return WantedSteps(steps or _STEPS, _TIMEOUT_S if timeout_s is None else timeout_s)


@contextmanager
def _exchange(shared: SharedFolder | None, draft: Draft) -> Iterator[ExchangeFolder]:
    """Give the folder for traces that do not come by gRPC."""
    from tfprobe.attach.service import exchange

    folder = exchange.private(draft.folder.root) if shared is None else exchange.shared(shared)
    try:
        yield folder
    finally:
        folder.close()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM unwind as an interrupt does, so that what is half made is removed."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _text(made: _Made) -> str:
    lines = [
        f"{recording.address}: {_steps(recording)} in {recording.duration_ns / 10**9:g} s"
        for recording in made.recordings
    ]
    return "".join(f"{printable(line)}\n" for line in [*lines, f"Recorded to {made.run.root}"])


def _steps(each: ServiceRecording) -> str:
    if not each.steps:
        return "no whole step"
    return "1 whole step" if each.steps == 1 else f"{each.steps} whole steps"


def _status(found: Sequence[ServiceRecording], wanted: WantedSteps) -> int:
    fewest = min(found, key=lambda recording: recording.steps)
    if wanted.steps is None or fewest.steps >= wanted.steps:
        return 0
    complain(
        f"{fewest.address} ran {fewest.steps} of {wanted.steps} requested steps in "
        f"{fewest.duration_ns / 10**9:g} s; they are kept. Allow more time with --timeout."
    )
    return NoAnswer.exit_code


def _document(made: _Made, wanted: WantedSteps) -> dict[str, Any]:
    """Return the tfprobe.capture/1 document, times in µs. Any: a JSON document."""
    return {
        "schema": "tfprobe.capture/1",
        "id": made.run.id,
        "dir": str(made.run.root),
        "wanted_steps": wanted.steps,
        "processes": [
            {
                "service": str(recording.address),
                "host": recording.address.host,
                "port": recording.address.port,
                "folder": folder.name,
                "steps": recording.steps,
                "duration_us": recording.duration_ns / 1000,
                "bytes": len(recording.content),
            }
            for recording, folder in zip(made.recordings, made.folders, strict=True)
        ],
    }
