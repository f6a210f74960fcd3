"""What commands share: the run, text and JSON, workers, and the end by a signal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click

from tfprobe.cli.main import complain
from tfprobe.errors import Missing, NoAnswer, UsageError
from tfprobe.launch import environ
from tfprobe.launch.settings import gather
from tfprobe.printable import printable, printable_lines, unfiltered, write_codes
from tfprobe.profile.programs import RANKS
from tfprobe.runs import safe_files
from tfprobe.runs.layout import LATEST, TRIALS, RunFolder

if TYPE_CHECKING:
    from rich.progress import Progress

    from tfprobe.findings.thresholds import Thresholds
    from tfprobe.profile.profile import Profile
    from tfprobe.query.process_pool import Runner
    from tfprobe.query.run_reports import RunReport
    from tfprobe.report.documents.run_report import Report
    from tfprobe.runs.layout import RunFolder


# Where stdout is no terminal there is no width to ask for; this one suits mails and logs.
PIPED_WIDTH = 100
# For files: names are not cut.
FILE_WIDTH = 10_000
MOST_NAMED = 20
_MOST_LOOPS = 10
# Anything faster needs no bar.
QUIET_SECONDS = 1.0
# Back to the start of the line, and nothing on it.
_NO_LINE = "\r\x1b[K"

# The same option has the same sentence in every command.
OUTPUT_HELP = "Directory of all runs.  [default: ./tfprobe-runs]"
JSON_HELP = "Print one JSON document."
RANK_HELP = "Read only the processes of rank R."
LOOP_HELP = "Show the loop whose kind and name contain TEXT.  [default: the loop with most time]"

output_option = click.option("-o", "--output", metavar="DIR", help=OUTPUT_HELP)
directory_option = click.option("-o", "--output", metavar="DIR", help="Same as DIR.")
json_option = click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
rank_option = click.option("--rank", type=int, metavar="R", help=RANK_HELP)
loop_option = click.option("--loop", default="", metavar="TEXT", help=LOOP_HELP)
loop_filter_option = click.option(
    "--loop", default="", metavar="TEXT", help="Show only loops whose kind and name contain TEXT."
)
markdown_option = click.option(
    "--md", "markdown", metavar="FILE", help="Write Markdown to FILE instead."
)


def default_run() -> str:
    """Return what RUN is where it is not given: TFPROBE_RUN, or the newest run."""
    return environ.default_run(LATEST)


def run_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command RUN, -o and --json; Callable[..., Any] is click's own type for commands."""
    return click.argument("run", default=default_run, metavar="[RUN]")(
        output_option(json_option(function))
    )


def chosen_run(run: str, output: str | None) -> RunFolder:
    """Resolve RUN: a directory, a run id, `latest`, or a URL, which is mirrored.

    Raises UnreadableInput or NoAnswer when there is none.
    """
    # Imported here: `tfprobe COMMAND --help` should not wait for numpy.
    from tfprobe.runs.catalogue import find_run

    if not is_url(run):
        return find_run(run, output_directory(output))
    with progress("Fetching") as watch:
        from tfprobe.runs.remote.mirror import fetched_run

        return RunFolder(fetched_run(run, environ.cache_home(), watch))


def chosen_runs(run: str, output: str | None) -> tuple[RunFolder, ...]:
    """Resolve RUN, which may also be a directory of runs: return all of them, the oldest first.

    Raises UnreadableInput or NoAnswer when there is none.
    """
    from tfprobe.runs.catalogue import find_runs

    if is_url(run):
        run = str(fetched_directory(run))
    return find_runs(run, output_directory(output))


def is_url(run: str) -> bool:
    """Say whether RUN or DIR is in remote storage, without importing what reads it."""
    return "://" in run


def fetched_directory(url: str, *, glance_only: bool = False) -> Path:
    """Return a mirror of all runs in the directory at a URL, or of the one run there.

    With `glance_only` it has only what a listing shows.
    """
    with progress("Fetching") as watch:
        from tfprobe.runs.remote.mirror import GLANCE, WHOLE, fetched_directory

        scope = GLANCE if glance_only else WHOLE
        return fetched_directory(url, environ.cache_home(), scope, watch)


def is_file(run: str) -> bool:
    """Say whether RUN names a file, or a pipe that one comes through."""
    return Path(run).exists() and not Path(run).is_dir()


def whole(run: str, output: str | None, *, rank: int | None) -> tuple[str, Profile]:
    """Read RUN, a run or a file from elsewhere; return what to call it and its profile.

    Raises UnreadableInput and NoAnswer when there is none, UsageError for a rank of a file.
    """
    if is_file(run):
        if rank is not None:
            raise UsageError(f"--rank applies to runs, and {run} is a file.")
        with progress(f"Reading {run}"):
            from tfprobe.profile.reader.file import file_profile

            return run, file_profile(Path(run))
    folder = chosen_run(run, output)
    with progress("Reading captures") as watch:
        from tfprobe.profile.reader.run_reader import load
        from tfprobe.runs.liveness import this_machine

        profile = load(folder, this_machine(), rank=rank, with_memory=False, watch=watch)
    return f"Run {folder.id}", profile


def answered(
    folder: RunFolder, *, rank: int | None, workers: Workers, limits: Thresholds | None = None
) -> RunReport:
    """Return what `report` and `advise` show of a run.

    Raises NoAnswer for a rank that it does not have, UsageError where the workers cannot work.
    """
    choose = workers.on(folder)
    with progress("Reading captures") as watch:
        from tfprobe.findings.thresholds import DEFAULTS
        from tfprobe.query.run_reports import answer
        from tfprobe.runs.liveness import this_machine

        found = answer(
            folder,
            this_machine(),
            rank=rank,
            limits=limits or DEFAULTS,
            choose=choose,
            watch=watch,
        )
    return _with_trials(found, folder)


def _with_trials(found: RunReport, folder: RunFolder) -> RunReport:
    """Add what trials of the same command, beside the run, measured of what the advice names."""
    command = found.report.run.command
    if isinstance(command, Missing) or not (folder.root.parent / TRIALS).is_dir():
        return found
    from tfprobe.findings.trials import with_measured
    from tfprobe.runs.trials import trials_of

    trials = trials_of(command, folder.root.parent)
    return replace(found, advice=with_measured(found.advice, trials))


def output_directory(flag: str | None) -> Path:
    """Return the directory of all runs: the flag, TFPROBE_OUTPUT, tfprobe.toml or the default."""
    flags = {} if flag is None else {"output": flag}
    return Path(gather(flags, environ.inherited(), environ.working_directory()).output)


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal what is being done, with a bar if it takes long; remove it at the end.

    Gives a function to be called with (done, all) now and then.
    """
    if not _obeys_codes(sys.stderr):
        yield lambda _done, _all: None
        return
    began = time.monotonic()
    bar: Progress | None = None
    sys.stderr.write(f"{printable(what)} ...")
    sys.stderr.flush()

    def watch(done: int, count: int) -> None:
        nonlocal bar
        if bar is None and time.monotonic() - began > QUIET_SECONDS:
            bar = _bar(what)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done, total=count)

    try:
        yield watch
    finally:
        if bar is not None:
            bar.stop()
        write_codes(sys.stderr, _NO_LINE)
        sys.stderr.flush()


def _bar(what: str) -> Progress:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    write_codes(sys.stderr, _NO_LINE)
    console = Console(file=unfiltered(sys.stderr))
    bar = Progress(console=console, transient=True)
    # Names in it are no markup.
    bar.add_task(escape(printable(what)))
    bar.start()
    return bar


def warn_of_problems(profile: Profile | Report) -> None:
    """Say on stderr which parts of a recording are not in an answer.

    Problems with its ranks are not lost parts: `report` and `ranks` show them.
    """
    problems = [problem for problem in profile.problems if problem.where != RANKS]
    count = len(problems)
    if count:
        first = problems[0]
        complain(
            f"{count} part{'s' if count > 1 else ''} of the recording could not be used; "
            f"`tfprobe report` lists them. The first: {first.where}: {first.what}"
        )


def no_such_loop(text: str, titles: Iterable[str]) -> NoAnswer:
    """Return the error for a --loop that matches none of the loops with these titles."""
    names = ", ".join(sorted(set(titles))[:_MOST_LOOPS])
    return NoAnswer(f"No loop has {text!r} in its kind and name.", hint=f"There are: {names}.")


def some(numbers: Sequence[int]) -> str:
    """Write numbers in a row; of many, the first, and how many more there are."""
    shown = ", ".join(map(str, numbers[:MOST_NAMED]))
    rest = len(numbers) - MOST_NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


def show(text: str) -> None:
    """Write text to stdout, with what the terminal's encoding lacks replaced.

    Raises UsageError when it cannot be written: a full disk, or no stdout.
    """
    _show(text, lambda stream, part: stream.write(part))


def show_page(text: str) -> None:
    """Write a page to stdout as `show` does, with its colours where `page_colour` says so."""
    _show(text, write_codes if page_colour() else lambda stream, part: stream.write(part))


def _show(text: str, write: Callable[[TextIO, str], object]) -> None:
    stream = sys.stdout
    if stream is None:
        raise UsageError("stdout is closed, so the answer cannot be written.")
    try:
        try:
            write(stream, text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            write(stream, text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise  # the reader has enough, which is not an error
    except OSError as exc:
        raise UsageError(f"stdout cannot be written: {exc.strerror or exc}.") from exc


def show_json(document: dict[str, Any]) -> None:
    """Write one JSON document to stdout. Any: values are whatever the schema says."""
    show(json.dumps(document, indent=2, allow_nan=False) + "\n")


def page_width() -> int:
    """Return the columns there are: COLUMNS, the terminal's, or the width for pipes."""
    return shutil.get_terminal_size(fallback=(PIPED_WIDTH, 24)).columns


def page_colour() -> bool:
    """Say whether stdout shows colour: a terminal that can, and no NO_COLOR (no-color.org)."""
    return _obeys_codes(sys.stdout) and not environ.inherited().get("NO_COLOR")


def _obeys_codes(stream: TextIO | None) -> bool:
    """Say whether it is a terminal that takes codes; the shell of an editor shows them."""
    is_terminal = stream is not None and stream.isatty()
    return is_terminal and environ.inherited().get("TERM") != "dumb"


def write_file(path: str, text: str) -> None:
    """Write a report to a file.

    Raises UsageError when it cannot be written.
    """
    try:
        Path(path).write_text(printable_lines(text), encoding="utf-8", errors="replace")
    except OSError as exc:
        raise UsageError(f"{path or '``'} cannot be written: {exc.strerror or exc}.") from exc


def write_whole(path: str, text: str) -> None:
    """Write a whole file or none; an existing one stays until the new one is complete.

    Raises UsageError when it cannot be written.
    """
    try:
        target = Path(path)
        if target.exists() and not target.is_file():
            write_file(path, text)  # a pipe or a device, which must stay what it is
        else:
            _replace(environ.absolute(target).resolve(), text)
    except (OSError, ValueError) as exc:  # ValueError: a path that no file can have
        raise UsageError(f"{path or '``'} cannot be written: {_reason(exc)}.") from exc


def _replace(path: Path, text: str) -> None:
    with safe_files.replacing(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


# Two workers are ready after about half a second. Below this much of captures one process has read
# them by then: see docs/scale.md.
PAYS_FROM_BYTES = 32_000_000


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers that the command line chooses."""

    count: int | None
    dask: str | None

    def on(self, folder: RunFolder) -> Callable[[int, int], Runner]:
        """Return what chooses the workers for a number of shards of a run and bytes of captures.

        Raises UsageError where both options exclude each other.
        """
        if self.dask is not None:
            return self._cluster(self.dask, folder)

        def choose(shards: int, capture_bytes: int) -> Runner:
            from tfprobe.query.process_pool import Here, LocalProcesses, cpus

            count = self.count or (cpus() if capture_bytes >= PAYS_FROM_BYTES else 1)
            return LocalProcesses(count) if min(count, shards) > 1 else Here()

        return choose

    def _cluster(self, address: str, folder: RunFolder) -> Callable[[int, int], Runner]:
        from tfprobe.query.cluster import LOCAL, Cluster

        if self.count is not None and address != LOCAL:
            hint = "The cluster has its own workers; `--dask local` starts one with N of them."
            raise UsageError(
                "--workers cannot be combined with the address of a cluster.", hint=hint
            )
        cluster = Cluster(address, self.count, must_see=(str(folder.root),))
        return lambda _shards, _capture_bytes: cluster


# Any: click's own type for commands.
def workers_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --workers and --dask, as `workers` and `dask`."""
    function = click.option(
        "--dask",
        metavar="ADDRESS",
        help="Read with a Dask cluster: the address of its scheduler, or `local` to start one.",
    )(function)
    return click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="Read with N worker processes.  [default: 1; all CPUs if there is much to read]",
    )(function)


class _Stopped(BaseException):
    """A signal asked for the end. Not an Exception, so that no code handles it as a failure."""


@contextmanager
def until_stopped() -> Iterator[None]:
    """End the block quietly at SIGINT or SIGTERM; a second one ends what is being cleaned up."""
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except _Stopped:
        pass
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def until_terminated() -> Iterator[None]:
    """End the block at SIGTERM as at an error, so that it cleans up, and then die of the signal."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    except _Stopped:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_number: int, _frame: object) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    raise _Stopped
