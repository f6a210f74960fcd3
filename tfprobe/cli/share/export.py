"""`tfprobe export`: write a run as a file of another program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tfprobe.cli import common
from tfprobe.cli.common import Workers, workers_options
from tfprobe.cli.share import export_output, export_tracker
from tfprobe.cli.share.export_output import write_tables
from tfprobe.errors import NoAnswer, UnreadableInput, UsageError
from tfprobe.printable import printable
from tfprobe.runs.layout import RUN_METADATA_SUFFIX

if TYPE_CHECKING:
    from tfprobe.analysis.system.stack_samples import ProcessTrees
    from tfprobe.export.models_profiler import ExportedStep
    from tfprobe.export.step_timeline import OpTime
    from tfprobe.profile.graph import TracedLoop
    from tfprobe.profile.profile import Capture, Loop, Process, Profile
    from tfprobe.profile.records import DeviceStats
    from tfprobe.runs.layout import RunFolder

_AVERAGE = -1


@dataclass(frozen=True, slots=True)
class _Run:
    """A recorded run; the profile has the chosen processes."""

    folder: RunFolder
    profile: Profile


@dataclass(frozen=True, slots=True)
class _Request:
    """What the command line says. `source` is a run, or a file from elsewhere."""

    source: _Run | Path
    loop: str
    step: int | None
    by: str
    show_memory: bool
    op_time: OpTime
    as_recorded: bool


@dataclass(frozen=True, slots=True)
class _Kind:
    """What can be written: pieces of one file, or files of a directory."""

    default_name: str
    opens_in: str
    pieces: Callable[[_Request], Iterable[str | bytes]] | None = None
    files: Callable[[_Request], Iterable[tuple[str, str]]] | None = None


@click.command("export")
@click.argument("run", default=common.default_run, metavar="[RUN]")
@click.option(
    "--to",
    "kind",
    type=click.Choice(
        [
            "chrome",
            "mlflow",
            "models-profiler",
            "parquet",
            "pprof",
            "profile-proto",
            "speedscope",
            "step-timeline",
            "wandb",
        ]
    ),
    required=True,
    metavar="KIND",
    help="Format to write, one of the above.",
)
@click.option(
    "-f",
    "--file",
    "target",
    metavar="PATH",
    help="Write to PATH, compressed if it ends in .gz.  [default: in RUN/report/]",
)
@click.option(
    "--loop",
    default="",
    metavar="TEXT",
    help="Write only the loop whose kind and name contain TEXT.",
)
@click.option(
    "--step", type=click.IntRange(min=0), metavar="N", help="Write only this traced step."
)
@common.rank_option
@click.option(
    "--by",
    type=click.Choice(["code", "scope", "stacks"]),
    default="code",
    show_default=True,
    metavar="KEY",
    help="For speedscope and pprof, build stacks from code, scope, or `run --stacks` (stacks).",
)
@click.option("--memory", is_flag=True, help="For step-timeline, also draw tensors and allocators.")
@click.option(
    "--op-time",
    type=click.Choice(["schedule", "gpu", "all"]),
    default="schedule",
    show_default=True,
    metavar="KEY",
    help="For step-timeline, time ops by their schedule, by their kernels (gpu), or by all.",
)
@click.option(
    "--as-recorded",
    is_flag=True,
    help="For chrome, leave times as the clock of each machine had them.",
)
@click.option(
    "--run-id",
    metavar="ID",
    help="For mlflow and wandb, the run to add to.  [default: the one that the job had]",
)
@workers_options
@common.output_option
def command(
    run: str,
    output: str | None,
    kind: str,
    target: str | None,
    loop: str,
    step: int | None,
    rank: int | None,
    by: str,
    memory: bool,
    op_time: OpTime,
    as_recorded: bool,
    run_id: str | None,
    workers: int | None,
    dask: str | None,
) -> int:
    """Convert a run for another program.

    RUN is a directory, a run id, or `latest`, the default; or a file that `tfprobe op` reads.

    \b
    chrome           All traced steps of all ranks on one clock, for Perfetto
    step-timeline    One step, as tensorflow.python.client.timeline writes it
    pprof            Ops by line of code, for `go tool pprof` and speedscope
    speedscope       Ops by line of code or by scope, for speedscope.app
    profile-proto    tfprof's own format, for `tfprobe tfprof` and TensorFlow
    models-profiler  A directory with timelines, step stats and a summary
    parquet          A directory with all tables, for DuckDB, pandas and polars
    mlflow, wandb    The report, added to the run of MLflow or W&B that the job had

    chrome, models-profiler and parquet have all loops, the others the one with most time or that
    of --loop.
    """
    if kind == "parquet":
        if loop or step is not None:
            hint = "To choose rows, use `tfprobe sql --parquet FILE`."
            raise UsageError("--loop and --step cannot be combined with --to parquet.", hint=hint)
        return write_tables(run, output, target, Workers(workers, dask), rank=rank)
    if workers is not None or dask is not None:
        raise UsageError("--workers and --dask require --to parquet.")
    if kind in export_tracker.KINDS:
        if loop or step is not None or target is not None:
            raise UsageError(f"--loop, --step and -f cannot be combined with --to {kind}.")
        return export_tracker.add_report(run, output, kind, run_id=run_id, rank=rank)
    if run_id is not None:
        raise UsageError("--run-id requires --to mlflow or --to wandb.")
    source = _source(run, output, rank)
    request = _Request(source, loop, step, by, memory, op_time, as_recorded)
    chosen = _KINDS[kind]
    default = source.folder.report if isinstance(source, _Run) else Path()
    path = Path(target) if target else default / chosen.default_name
    try:
        report = source.folder.report if isinstance(source, _Run) else None
        if chosen.files is not None:
            export_output.write_files(path, chosen.files(request), report=report)
        elif chosen.pieces is not None:
            export_output.write_pieces(path, iter(chosen.pieces(request)), report=report)
    except OSError as exc:
        raise UsageError(
            f"{path} cannot be written: {exc.strerror or exc}.", hint="Name another place with -f."
        ) from exc
    if isinstance(source, _Run):
        common.warn_of_problems(source.profile)
    common.show(f"{printable(str(path))}\n{chosen.opens_in}\n")
    return 0


def _source(run: str, output: str | None, rank: int | None) -> _Run | Path:
    from tfprobe.profile.reader.run_reader import load
    from tfprobe.runs.liveness import this_machine

    if Path(run).is_file():
        return Path(run)
    folder = common.chosen_run(run, output)
    with common.progress("Reading captures") as watch:
        profile = load(folder, this_machine(), rank=rank, with_spans=False, watch=watch)
        return _Run(folder, profile)


def _whole_run(request: _Request) -> _Run:
    """Return the chosen run.

    Raises UsageError where it is a file.
    """
    if isinstance(request.source, _Run):
        return request.source
    raise UsageError(
        f"This format needs a run, and {request.source} is a file.",
        hint="Use --to step-timeline, pprof, speedscope or profile-proto.",
    )


def _chrome(request: _Request) -> Iterator[str]:
    from tfprobe.analysis.distributed.aligned import align
    from tfprobe.export.run_timeline import run_timeline

    aligned = align(_whole_run(request).profile, as_recorded=request.as_recorded)
    captures = _captures(request, aligned.profile)
    yield from run_timeline(replace(aligned, profile=aligned.profile.only(captures)))


def _pprof(request: _Request) -> Iterator[bytes]:
    from tfprobe.analysis.ops.code_view import code
    from tfprobe.analysis.ops.cost_tree import ViewOptions
    from tfprobe.analysis.ops.flops.count import count, coverage
    from tfprobe.analysis.ops.op_stats import known_columns, step_costs
    from tfprobe.export.pprof import pprof
    from tfprobe.report.text.costs import describe_coverage

    if request.by == "stacks":
        from tfprobe.export.speedscope import stacks_pprof

        trees, title = _stacks(request)
        yield stacks_pprof(trees, comments=[title])
        return
    captures = _sampled(request)
    _check_code(captures)
    step = _AVERAGE if request.step is None else request.step
    float_ops = count(captures)
    costs = step_costs(captures, step, float_ops)
    view = code(captures, costs, ViewOptions(max_depth=_EVERYTHING, step=step))
    known = known_columns(captures, float_ops)
    comments = [_title(request, captures), describe_coverage(coverage(captures, float_ops, step))]
    yield pprof(captures, costs, view, known=known, comments=comments)


def _speedscope(request: _Request) -> Iterator[str]:
    from tfprobe.analysis.ops.code_view import code, code_stacks, scope_stacks
    from tfprobe.analysis.ops.cost_tree import ViewOptions
    from tfprobe.analysis.ops.flops.count import count, coverage
    from tfprobe.analysis.ops.op_stats import known_columns, step_costs
    from tfprobe.analysis.ops.scope_view import scope
    from tfprobe.export.speedscope import speedscope
    from tfprobe.report.text.costs import describe_coverage

    if request.by == "stacks":
        from tfprobe.export.speedscope import stacks_speedscope

        trees, title = _stacks(request)
        yield stacks_speedscope(trees, name=title)
        return
    found = _sampled(request)
    step = _AVERAGE if request.step is None else request.step
    float_ops = count(found)
    costs = step_costs(found, step, float_ops)
    choice = ViewOptions(max_depth=_EVERYTHING, step=step)
    if request.by == "code":
        _check_code(found)
        stacks = code_stacks(code(found, costs, choice))
    else:
        stacks = scope_stacks(scope(found, costs, choice))
    title = f"{_title(request, found)}. {describe_coverage(coverage(found, float_ops, step))}"
    known = known_columns(found, float_ops)
    yield speedscope(found, costs, stacks, name=title, known=known)


def _stacks(request: _Request) -> tuple[Sequence[ProcessTrees], str]:
    """Return what was read of stacks, and a title that says how much that is.

    Raises UsageError for a loop or a step, NoAnswer where nothing was read.
    """
    from tfprobe.analysis.system.stack_samples import process_trees
    from tfprobe.report.text.stacks import counted

    if request.loop or request.step is not None:
        raise UsageError("--by stacks cannot be combined with --loop or --step.")
    run = _whole_run(request).profile
    trees = process_trees(run)
    if not trees:
        hint = "Record with `tfprobe run --stacks -- COMMAND`."
        raise NoAnswer(f"Run {run.run.id} has no stacks.", hint=hint)
    return trees, f"{run.run.id}: {'; '.join(counted(each.stacks) for each in trees)}"


def _profile_proto(request: _Request) -> Iterator[bytes]:
    from tfprobe.analysis.ops.tfprof_records import graph_profile
    from tfprobe.export.profile_proto import profile_proto

    yield profile_proto(graph_profile(_sampled(request)))


def _step_timeline(request: _Request) -> Iterator[str]:
    from tfprobe.export.step_timeline import step_timeline

    found = _sampled(request)
    latest = max(found.captures, key=lambda capture: capture.step)
    devices, _ = _devices(request.source, found, latest)
    yield step_timeline(devices, show_memory=request.show_memory, op_time=request.op_time)


def _models_profiler(request: _Request) -> Iterator[tuple[str, str]]:
    from tfprobe.export.models_profiler import models_profiler

    run = _whole_run(request)
    profile = run.profile
    captures = _captures(request, profile)
    loops = [
        (profile.processes[loop.process], loop)
        for loop in profile.loops
        if any(_is_of(capture, loop) for capture in captures)
    ]
    steps = _recorded_steps(run, loops, captures)
    yield from models_profiler(profile.only(captures), loops, steps)


def _recorded_steps(
    run: _Run, loops: list[tuple[Process, Loop]], captures: tuple[Capture, ...]
) -> Iterator[ExportedStep]:
    from tfprobe.export.models_profiler import ExportedStep
    from tfprobe.profile.reader.traced_steps import sampled

    for process, loop in loops:
        found = sampled(run.folder, run.profile, loop)
        for capture in captures:
            if _is_of(capture, loop):
                devices, text = _devices(run, found, capture)
                yield ExportedStep(process, loop, capture.step, devices, text)


_EVERYTHING = 1_000_000
_KINDS = {
    "chrome": _Kind("timeline.json", "Open it in https://ui.perfetto.dev.", _chrome),
    "models-profiler": _Kind("profile", "Start with summary.md.", files=_models_profiler),
    "pprof": _Kind("code.pb.gz", "Open it with `go tool pprof -http=: FILE`.", _pprof),
    "profile-proto": _Kind(
        "tfprof.profile", "Open it with `tfprobe tfprof --profile_path=FILE`.", _profile_proto
    ),
    "speedscope": _Kind(
        "speedscope.json", "Open it in https://www.speedscope.app.", _speedscope
    ),
    "step-timeline": _Kind(
        "step-timeline.json", "Open it in https://ui.perfetto.dev.", _step_timeline
    ),
}  # fmt: skip


def _sampled(request: _Request) -> TracedLoop:
    """Return the traced steps of the chosen loop.

    Raises NoAnswer where there is none, or not the step.
    """
    from tfprobe.cli.read.views import chosen_loop
    from tfprobe.profile.reader.file import sampled_file
    from tfprobe.profile.reader.traced_steps import sampled

    if isinstance(request.source, Path):
        if request.loop:
            raise UsageError(f"--loop applies to runs, and {request.source} is a file.")
        found = sampled_file(request.source, with_shapes=True)
        return replace(found, captures=_of_step(found.captures, request.step))
    folder, profile = request.source.folder, request.source.profile
    loop = chosen_loop(profile, request.loop)
    captures = tuple(capture for capture in profile.captures if _is_of(capture, loop))
    chosen = profile.only(_of_step(captures, request.step))
    return sampled(folder, chosen, loop, with_shapes=True)


def _captures(request: _Request, profile: Profile) -> tuple[Capture, ...]:
    """Return the captures of all chosen loops.

    Raises NoAnswer where there is none.
    """
    from tfprobe.analysis.core import no_data_reasons
    from tfprobe.cli.read.views import chosen_loop

    if request.loop:
        chosen_loop(profile, request.loop)
    loops = [each for each in profile.loops if request.loop in f"{each.kind} {each.name}"]
    captures = profile.captures
    if request.loop:
        captures = tuple(
            capture for capture in captures if any(_is_of(capture, loop) for loop in loops)
        )
    if not captures:
        why = " ".join(no_data_reasons.explain(profile)) or "No step was traced."
        raise NoAnswer(f"Run {profile.run.id} has nothing to export.", hint=why)
    return _of_step(captures, request.step)


def _of_step(captures: tuple[Capture, ...], step: int | None) -> tuple[Capture, ...]:
    chosen = tuple(capture for capture in captures if step in (None, capture.step))
    if not chosen:
        steps = sorted({capture.step for capture in captures})
        raise NoAnswer(f"Step {step} was not traced.", hint=f"Traced steps: {common.some(steps)}.")
    return chosen


def _is_of(capture: Capture, loop: Loop) -> bool:
    return capture.process == loop.process and capture.loop == loop.index


def _devices(
    source: _Run | Path, found: TracedLoop, capture: Capture
) -> tuple[tuple[DeviceStats, ...], str | None]:
    """Return what devices did in a step, and TensorFlow's StepStats as text where it wrote one."""
    from tfprobe.analysis.ops.tfprof_records import recorded_step_stats
    from tfprobe.formats.run_metadata.step_stats import step_stats, step_stats_text
    from tfprobe.runs.safe_files import content_of

    path = _metadata_path(source, found, capture)
    if path is None:
        return recorded_step_stats(found, capture), None
    try:
        content = content_of(path)
        return step_stats(content), step_stats_text(content)
    except OSError as exc:
        raise UnreadableInput(f"{path} cannot be read: {exc.strerror or exc}.") from exc
    except UnreadableInput:
        if source is not path:
            raise
        return recorded_step_stats(found, capture), None  # a file of another kind


def _metadata_path(source: _Run | Path, found: TracedLoop, capture: Capture) -> Path | None:
    """Return the file that may hold the RunMetadata of a step."""
    from tfprobe.profile.reader.traced_steps import process_folder

    if isinstance(source, Path):
        return source
    folder = process_folder(source.folder, source.profile, found.loop)
    if folder is None or not capture.file.endswith(RUN_METADATA_SUFFIX):
        return None
    return folder.capture(capture.file)


def _check_code(found: TracedLoop) -> None:
    if not found.graph.has_traces:
        raise NoAnswer(
            "The recording does not say which code created these ops.",
            hint="Use `--to speedscope --by scope`, or record with --every or --steps.",
        )


def _title(request: _Request, found: TracedLoop) -> str:
    loop, count = found.loop, len(found.captures)
    steps = f"step {found.captures[0].step}" if count == 1 else f"mean of {count} traced steps"
    name = request.source if isinstance(request.source, Path) else request.source.profile.run.id
    return f"{name}: {loop.kind} {loop.name}, {steps}"
