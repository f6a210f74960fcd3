"""Write stacks that were read from outside as a file of speedscope, or as a profile of pprof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfprobe.analysis.system.stack_lines import stacks_of
from tfprobe.analysis.system.stack_samples import CallTree, ProcessTrees
from tfprobe.errors import Missing
from tfprobe.export.pprof import Tables, packed, sample
from tfprobe.export.speedscope import Frames, file_text, sampled_profile

NO_PYTHON = "(no Python frame)"


class _Named(NamedTuple):
    """A tree and what it is of."""

    process: str
    thread: str
    phase: str
    tree: CallTree


def stacks_speedscope(trees: Sequence[ProcessTrees], *, name: str) -> str:
    """Return a file with a profile for each thread, and for each phase of the main thread."""
    frames = Frames()
    profiles = []
    for each in trees:
        for part in (*_threads(each), *_phases(each)):
            weighed = [
                ([frames.number(frame.function, frame.file, frame.line) for frame in stack], own_ns)
                for stack, own_ns in stacks_of(part.tree)
            ]
            if part.tree.no_python_ns:
                weighed.append(([frames.number(NO_PYTHON)], part.tree.no_python_ns))
            title = " · ".join(filter(None, (part.process, part.thread, part.phase)))
            profiles.append(sampled_profile(title, "nanoseconds", weighed))
    return file_text(name, frames, profiles)


def stacks_pprof(trees: Sequence[ProcessTrees], *, comments: Sequence[str] = ()) -> bytes:
    """Return a profile of time; labels name process, thread and, of the main thread, the phase."""
    tables = Tables()
    samples = []
    for each in trees:
        phases = list(_phases(each))
        main = "" if isinstance(each.main, Missing) else _title(each.main.id, each.main.name)
        others = [part for part in _threads(each) if not phases or part.thread != main]
        for part in (*phases, *others):
            labels = [("process", part.process), ("thread", part.thread)]
            labels += [("phase", part.phase)] if part.phase else []
            for stack, own_ns in stacks_of(part.tree):
                path = [tables.call_site(*frame) for frame in reversed(stack)]
                samples.append(sample(path, [own_ns], labels, tables))
            if part.tree.no_python_ns:
                path = [tables.nowhere(NO_PYTHON)]
                samples.append(sample(path, [part.tree.no_python_ns], labels, tables))
    return packed(tables.message([("time", "nanoseconds")], samples, comments=comments))


def _threads(each: ProcessTrees) -> Iterator[_Named]:
    for part in each.threads:
        thread = _title(part.thread.id, part.thread.name)
        yield _Named(each.process.label, thread, "", part.tree)


def _phases(each: ProcessTrees) -> Iterator[_Named]:
    if isinstance(each.phases, Missing) or isinstance(each.main, Missing):
        return
    for part in each.phases:
        thread = _title(each.main.id, each.main.name)
        yield _Named(each.process.label, thread, part.name, part.tree)


def _title(number: int, name: str) -> str:
    return f"{name or 'thread'} ({number})"
