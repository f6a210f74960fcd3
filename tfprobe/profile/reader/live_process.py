"""Read a process that may still run, at a bounded cost: its notes and its newest captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.profile import Problem, Process, Profile, Run
from tfprobe.profile.reader.captures import Decoder, Gathered, window_of
from tfprobe.profile.reader.followed_captures import with_queued_steps
from tfprobe.profile.reader.process_notes import behind_queued_steps, exposed_gaps
from tfprobe.profile.reader.processes import process_of, with_launch
from tfprobe.profile.tables import empty
from tfprobe.runs.layout import ProcessFolder, RunFolder, parse_capture_name
from tfprobe.runs.liveness import UNKNOWN, ProcessEntry
from tfprobe.runs.manifests import ProcessManifest, RunManifest, read_process, read_run
from tfprobe.runs.process_folder.activities import read_activities, read_latest_activities
from tfprobe.runs.process_folder.events import event_log
from tfprobe.runs.process_folder.gaps import gap_log
from tfprobe.runs.process_folder.resource_samples import resource_sample_log
from tfprobe.runs.process_folder.steps import StepsFile, read_steps

# The notes about a few captures are at the ends of files; a watched gap takes some 50 KB.
_LAST_BYTES = 4 << 20
_UNREAD = Missing("one process was read by itself")


def newest_captures(
    folder: ProcessFolder, *, most: int, go_on: Callable[[], bool] = lambda: True
) -> Profile:
    """Return a profile of the newest captures of the traced loop with the longest total step time.

    It has the captures oldest first, all loops of the process, and the gaps after these steps. A
    capture that cannot be decoded becomes a problem. A capture whose event has not been written yet
    is left out if another one has an event: the file alone does not say when the step began and
    ended. `go_on` is called before each capture except the first, which is the newest.

    Raises UnreadableInput if there is no steps.bin.
    """
    steps = read_steps(folder.steps)
    events = event_log(folder.events, last_bytes=_LAST_BYTES).read().things
    samples = {event.text("capture"): event for event in events if event.kind == "sample"}
    gathered = Gathered()
    decoder = Decoder(folder, gathered.interner, with_memory=False)
    problems = []
    paths = _newest(folder.capture_files(), steps)
    with_events = [path for path in paths if path.name in samples] or paths
    for path in _while(go_on, with_events[:most]):
        sample = samples.get(path.name)
        item = decoder.decode(path.name, sample, window_of(path.name, sample, steps))
        if isinstance(item, Problem):
            problems.append(item)
        else:
            gathered.put((folder.host, folder.name, path.name), item)
    return _profile(folder, steps, gathered, problems)


def _newest(paths: Iterable[Path], steps: StepsFile) -> list[Path]:
    """Return the captures of the longest loop that has any, latest step first."""
    time_ns = {loop.index: loop.times.sum_ns for loop in steps.loops}
    by_loop: dict[int, list[tuple[int, Path]]] = {}
    for path in paths:
        named = parse_capture_name(path.name)
        if named is not None:
            by_loop.setdefault(named.loop, []).append((named.step, path))
    if not by_loop:
        return []
    busiest = max(by_loop, key=lambda loop: (time_ns.get(loop, 0), -loop))
    return [path for _, path in sorted(by_loop[busiest], reverse=True)]


def _while(go_on: Callable[[], bool], paths: Sequence[Path]) -> Iterator[Path]:
    for at, path in enumerate(paths):
        if at and not go_on():
            return
        yield path


def _profile(
    folder: ProcessFolder, steps: StepsFile, gathered: Gathered, problems: Sequence[Problem]
) -> Profile:
    executions, spans, allocations = gathered.tables()
    indices = {(folder.host, folder.name): 0}
    loops, captures = with_queued_steps(steps.loops, gathered.captures(indices), executions)
    run = folder.root.parents[1]
    shift_ns = steps.header.unix_ns(0)
    log = read_latest_activities(folder.activities, last_bytes=_LAST_BYTES, shift_ns=shift_ns)
    gaps = gap_log(folder.gaps, shift_ns=shift_ns, last_bytes=_LAST_BYTES).read().things
    traced = {(capture.loop, capture.step) for capture in captures}
    return Profile(
        run=Run(run.name, str(run), command=_UNREAD, started=_UNREAD, state="unknown"),
        processes=(),
        interpreters=(),
        loops=loops,
        captures=captures,
        executions=executions,
        spans=spans,
        allocations=allocations,
        nodes=gathered.nodes(indices),
        problems=tuple(problems),
        activities=log.until(steps.last_sign_mono_ns + shift_ns),
        gaps=exposed_gaps([gap for gap in gaps if (gap.loop, gap.step) in traced], loops),
    )


# Dozens of gaps a minute are watched as long as the job runs; the latest are representative.
_NOTED_LAST_BYTES = 1 << 20


def noted(folder: ProcessFolder) -> Profile:
    """Return a profile of one process without captures: loops, activities, gaps and samples.

    It has only the gaps in the latest MB of their file. The process state is not looked up.

    Raises UnreadableInput if there is no steps.bin.
    """
    steps = read_steps(folder.steps)
    run = RunFolder(folder.root.parents[1])
    shift_ns = steps.header.unix_ns(0)
    gaps = gap_log(folder.gaps, shift_ns=shift_ns, last_bytes=_NOTED_LAST_BYTES).read().things
    samples = resource_sample_log(folder.resource_samples, shift_ns=shift_ns).read().things
    return Profile(
        run=Run(run.id, str(run.root), command=_UNREAD, started=_UNREAD, state=UNKNOWN),
        processes=(_process(folder, run, steps),),
        interpreters=(),
        loops=steps.loops,
        captures=(),
        executions=empty(Executions),
        problems=(),
        activities=behind_queued_steps(
            read_activities(folder.activities, shift_ns=shift_ns).until(
                steps.last_sign_mono_ns + shift_ns
            ),
            steps.loops,
            [shift_ns],
        ),
        gaps=exposed_gaps(gaps, steps.loops),
        resource_samples=tuple(sorted(samples, key=lambda sample: sample.at_ns)),
    )


def _process(folder: ProcessFolder, run: RunFolder, steps: StepsFile) -> Process:
    count = sum(loop.count for loop in steps.loops)
    entry = ProcessEntry(folder, _manifest(folder), steps.header, count, UNKNOWN)
    try:
        launches: tuple[RunManifest, ...] = (read_run(run.manifest),)
    except UnreadableInput:
        launches = ()
    return with_launch(process_of(entry, steps, 0), entry, launches)


def _manifest(folder: ProcessFolder) -> ProcessManifest | Missing:
    try:
        return read_process(folder.manifest)
    except UnreadableInput as exc:
        return Missing(str(exc))
