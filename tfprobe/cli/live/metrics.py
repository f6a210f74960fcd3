"""`tfprobe metrics`: the runs of a directory for Prometheus, Grafana and OpenTelemetry."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

import tfprobe
from tfprobe.cli import common
from tfprobe.cli.common import until_stopped
from tfprobe.cli.main import complain
from tfprobe.cli.run_filters import as_age
from tfprobe.errors import UnreadableInput, UsageError
from tfprobe.launch import environ
from tfprobe.runs import safe_files

if TYPE_CHECKING:
    from tfprobe.live.metrics.exporter import Exporter
    from tfprobe.live.metrics.otlp import Pusher
    from tfprobe.live.metrics.subjects import Limits

# Beyond 9100 to 9999, which are all given to exporters, and below the ports that the system chooses
# from. On the keys of a telephone, 837 is TFP.
DEFAULT_PORT = 19837
_NS_PER_S = 1_000_000_000
_SLICE_S = 1.0


@click.command("metrics")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Listen on this address; anyone who can reach it can read the metrics.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="P",
    help=f"Listen on this port; 0 picks a free one.  [default: {DEFAULT_PORT}]",
)
@click.option("--once", is_flag=True, help="Print all metrics and exit.")
@click.option("-f", "--file", "target", metavar="PATH", help="With --once, write to PATH instead.")
@click.option(
    "--otlp",
    metavar="URL",
    help="Send to this OpenTelemetry collector; serve only if --port is given.",
)
@click.option(
    "--every",
    "every_s",
    type=click.IntRange(1, 86400),
    default=15,
    metavar="S",
    show_default=True,
    help="With --otlp, seconds between exports.",
)
@click.option(
    "--finished-for",
    "finished_ns",
    default="1h",
    show_default=True,
    metavar="AGE",
    callback=as_age,
    help="Keep exporting ended processes for this long.",
)
@click.option(
    "--most-processes",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="N",
    help="Export at most N processes; leave out ended and older ones first.",
)
@click.option("--no-findings", is_flag=True, help="Do not run `tfprobe advise` on the runs.")
@common.directory_option
def command(
    directory: str | None,
    output: str | None,
    host: str,
    port: int | None,
    once: bool,
    target: str | None,
    otlp: str | None,
    every_s: int,
    finished_ns: int,
    most_processes: int,
    no_findings: bool,
) -> int:
    """Export metrics of all runs below DIR to Prometheus or OpenTelemetry.

    The URL to scrape is printed on stdout. Interrupt or terminate the command to end it, with
    status 0. docs/metrics.md lists all metrics and has a dashboard for Grafana.
    """
    from tfprobe.live.metrics.subjects import Limits

    chosen = Path(directory) if directory is not None else common.output_directory(output)
    place = environ.absolute(chosen)
    if not place.is_dir():
        raise UnreadableInput(
            f"{chosen} is not a directory.", hint="Name the directory given to `tfprobe run -o`."
        )
    _check(once=once, target=target, port=port)
    limits = Limits(finished_for_s=finished_ns / _NS_PER_S, most_processes=most_processes)
    if once:
        return _answer_once(place, limits, target, otlp)
    advice = None if no_findings else _advice_command()
    if port is None and otlp is None:
        port = DEFAULT_PORT
    address = None if port is None else (host, port)
    with until_stopped():
        _answer_on(place, limits, advice, address=address, otlp=otlp, every_s=every_s)
    return 0


def _check(*, once: bool, target: str | None, port: int | None) -> None:
    if target is not None and not once:
        raise UsageError("--file requires --once.")
    if once and port is not None:
        raise UsageError("--once and --port cannot be combined.")


def _advice_command() -> tuple[str, ...]:
    """Return the command that prints the advice on a run.

    Not `-m tfprobe`: that would take a folder of this name in the current directory for ours.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(tfprobe.__file__)))
    start = f"import sys; sys.path[0] = {package!r}; from tfprobe.cli.main import main"
    return sys.executable, "-c", f"{start}; sys.exit(main())", "advise", "--json", "--"


def _answer_once(place: Path, limits: Limits, target: str | None, otlp: str | None) -> int:
    """Print, write or send one answer."""
    from tfprobe.live.metrics.exporter import once
    from tfprobe.live.metrics.server import text
    from tfprobe.runs.liveness import this_machine

    exporter = once(place, this_machine(), limits)
    if otlp is not None:
        with closing(_pusher(otlp, exporter)) as pusher:
            return 0 if pusher.push() else 1
    content, _ = text(exporter.answer().families)
    if target is None:
        common.show(content.decode("utf-8"))
        return 0
    _write(Path(target), content)
    return 0


def _write(path: Path, content: bytes) -> None:
    """Write a file that is never seen half written.

    Raises UsageError where it cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device, which must stay what it is
            return
        with safe_files.replacing(path) as file:
            file.write(content)
    except OSError as exc:
        raise UsageError(
            f"{path} cannot be written: {exc.strerror or exc}.", hint="Name another place with -f."
        ) from exc


def _answer_on(
    place: Path,
    limits: Limits,
    advice: Sequence[str] | None,
    *,
    address: tuple[str, int] | None,
    otlp: str | None,
    every_s: int,
) -> None:
    """Serve, send, or both, until it is stopped."""
    from tfprobe.live.metrics.exporter import watched
    from tfprobe.runs.liveness import this_machine

    with (
        watched(place, this_machine(), limits, advice=advice, complain=complain) as exporter,
        nullcontext() if otlp is None else closing(_pusher(otlp, exporter)) as pusher,
        nullcontext() if address is None else _served(address, exporter),
    ):
        while True:
            next_s = time.monotonic() + every_s
            if pusher is not None:
                pusher.push()
            _rest(next_s)


def _rest(until_s: float) -> None:
    """Wait, in slices: a signal that comes right before a sleep is noticed right after it."""
    while (left_s := until_s - time.monotonic()) > 0:
        time.sleep(min(left_s, _SLICE_S))


@contextmanager
def _served(address: tuple[str, int], exporter: Exporter) -> Iterator[None]:
    """Serve the exporter, and say where."""
    from tfprobe.live.metrics.server import Endpoint

    endpoint = Endpoint(*address, exporter.answer, complain=complain)
    endpoint.start()
    try:
        common.show(f"{endpoint.url}\n")
        yield
    finally:
        endpoint.stop()


def _pusher(url: str, exporter: Exporter) -> Pusher:
    """Return what sends to a collector.

    Raises UsageError where the packages for it are not installed.
    """
    try:
        from tfprobe.live.metrics.otlp import Pusher
    except ImportError as exc:
        raise UsageError(
            f"--otlp needs packages that are not installed ({exc}).",
            hint="Install them with `pip install 'tfprobe[otlp]'`.",
        ) from exc
    return Pusher(url, exporter, complain)
