"""Read what a process that may still run noted of its whole life, without captures and stacks."""

from __future__ import annotations

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.profile.executions import Executions
from tfprobe.profile.profile import Process, Profile, Run
from tfprobe.profile.reader.activities import activities
from tfprobe.profile.reader.gaps import gaps
from tfprobe.profile.reader.processes import process_of, with_launch, work_of
from tfprobe.profile.reader.pulses import pulses
from tfprobe.profile.tables import empty
from tfprobe.runs.activities import read_activities
from tfprobe.runs.catalogue import ProcessEntry
from tfprobe.runs.gaps import GapLog, gap_log
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import UNKNOWN
from tfprobe.runs.manifests import ProcessManifest, RunManifest, read_process, read_run
from tfprobe.runs.pulses import read_pulses
from tfprobe.runs.steps import StepsFile, read_steps

# Watched gaps are dozens a minute, for as long as the job runs; the latest divide as well as all.
_LAST_BYTES = 1 << 20
_UNREAD = Missing("one process was read by itself")


def noted(folder: ProcessFolder) -> Profile:
    """Return a profile of one process without captures: works, activities, gaps and pulses.

    Gaps are the latest MB of them. The state is not looked up.

    Raises UnreadableInput when there is no steps.bin.
    """
    steps = read_steps(folder.steps)
    run = RunFolder(folder.root.parents[1])
    shift_ns = steps.header.unix_ns(0)
    watched = gap_log(folder.gaps, last_bytes=_LAST_BYTES).read().things
    return Profile(
        run=Run(run.id, str(run.root), command=_UNREAD, started=_UNREAD, state=UNKNOWN),
        processes=(_process(folder, run, steps),),
        interpreters=(),
        works=tuple(work_of(record, 0, steps.header) for record in steps.works),
        captures=(),
        executions=empty(Executions),
        problems=(),
        activities=activities(
            read_activities(folder.activities),
            process=0,
            unix_minus_monotonic_ns=shift_ns,
            last_ns=steps.last_sign_mono_ns,
        ),
        gaps=tuple(gaps(GapLog(tuple(watched), 0), process=0, unix_minus_monotonic_ns=shift_ns)),
        pulses=pulses(read_pulses(folder.pulses), process=0, unix_minus_monotonic_ns=shift_ns),
    )


def _process(folder: ProcessFolder, run: RunFolder, steps: StepsFile) -> Process:
    count = sum(work.count for work in steps.works)
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
