"""Read the one trace that a profiler service gave of a process: all steps in it are captures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.formats import xspace
from tfprobe.formats.trace import Marker, Trace
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.profile import SERVICE_KIND, Capture, Work
from tfprobe.profile.reader.steps_of_trace import cut, in_steps
from tfprobe.profile.reader.whole_trace import are_numbered, gaps_of, recent_of, times_of
from tfprobe.profile.strings import Interner
from tfprobe.runs.contents import content_of
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.manifests import ProcessManifest

UNTOLD = Missing("the profiler service does not tell, and there was no agent")
# The name of the one step of a trace that tells none apart.
_WHOLE = "the whole recording"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The work of a process, its steps, the trace cut into them, and the time between them."""

    work: Work
    captures: tuple[Capture, ...]
    trace: Trace
    gaps: tuple[Gap, ...]


def whole_steps(content: bytes) -> int:
    """Return how many whole steps an XSpace tells apart, 0 where it tells none.

    Raises UnreadableInput when the bytes are no XSpace or hold no plane.
    """
    found = cut(xspace.read(content))
    return len(found[0]) if found else 0


def read(
    folder: ProcessFolder, manifest: ProcessManifest, interner: Interner, *, process: int
) -> Recorded:
    """Return what was recorded, on the wall clock. Strings become positions in `interner`.

    Steps are those that the program marked, else runs of a Session, else the calls of one
    tf.function; a trace without any is one step.

    Raises UnreadableInput where there is no trace, or none that tells of steps.
    """
    path = _trace_file(folder)
    trace = xspace.Reader(interner).read(_content(path))
    if not trace.is_unix:
        # Until TF 2.14 times count from the start of the recording, which is noted to the ms.
        trace = trace.moved(manifest.started_unix_ns)
    steps, trace = in_steps(trace)
    if not trace.tells_of_steps:
        raise UnreadableInput(f"{path.name} holds no execution of an op")
    captures = _captures(steps, path.name, process)
    return Recorded(_work(steps, captures, process), captures, trace, tuple(_gaps(captures)))


def _trace_file(folder: ProcessFolder) -> Path:
    files = folder.capture_files()
    if not files:
        raise UnreadableInput("captures/ holds no trace")
    return files[0]


def _content(path: Path) -> bytes:
    try:
        return content_of(path)
    except OSError as exc:
        raise UnreadableInput(f"{path.name} cannot be read, {exc.strerror or exc}") from exc


def _captures(steps: Sequence[Marker], file: str, process: int) -> tuple[Capture, ...]:
    captures = tuple(
        Capture(
            index=index,
            process=process,
            work=0,
            step=step.number,
            file=file,
            level="window",
            start_ns=step.start_ns,
            duration_ns=step.end_ns - step.start_ns,
            plain_ns=Missing("all steps were recorded, and none without"),
        )
        for index, step in enumerate(steps)
    )
    if are_numbered(captures):
        return captures
    # Keras numbers the steps of each epoch from 0 on: a number would name several.
    return tuple(replace(each, step=each.index) for each in captures)


def _gaps(captures: Sequence[Capture]) -> Iterator[Gap]:
    """Give the time after each step but the last. What Python did in it nobody watched."""
    for one, after in itertools.pairwise(captures):
        end_ns = one.start_ns + one.duration_ns
        gap_ns = after.start_ns - end_ns
        unknown = Call(None, "", "", 0, 0, is_generator=False, count=1, self_ns=gap_ns)
        yield Gap(one.process, 0, one.step, end_ns, gap_ns, 0, cut=False, calls=(unknown,))


def _work(steps: Sequence[Marker], captures: Sequence[Capture], process: int) -> Work:
    recent = recent_of(captures)
    # All were traced alike: none stands beside untraced ones and is to be left out for that.
    recent = replace(recent, sampled=np.zeros_like(recent.sampled))
    return Work(
        process=process,
        index=0,
        kind=SERVICE_KIND,
        name=steps[0].name or _WHOLE,
        thread="",
        executed=len(captures),
        raised=0,
        sampled=len(captures),
        retraces=0,
        steps_per_execution=1,
        optimizer_steps=UNTOLD,
        times=times_of(captures),
        gaps=gaps_of(captures),
        recent=recent,
        first_seen_ns=captures[0].start_ns,
    )
