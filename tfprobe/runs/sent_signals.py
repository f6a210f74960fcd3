"""Read which process of a job told which other one to end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tfprobe.runs import lines
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.manifests import ProcessManifest
from tfprobe.runs.steps_layout import Header


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that a process of the job sent: to a process, or to the group `-target`."""

    host: str
    sender: int
    unix_ns: int
    target: int
    number: int
    # Of the same moment; None in older recordings.
    mono_ns: int | None = None


def read_signals(path: Path) -> tuple[SentSignal, ...]:
    """Read which signals the job's own processes sent; an absent file holds none."""
    rows = (_signal(line) for line in lines.whole_lines(path))
    return tuple(row for row in rows if row is not None)


def signal_to(
    manifest: ProcessManifest, header: Header | None, sent: Iterable[SentSignal]
) -> SentSignal | None:
    """Return the latest signal that a process got from another one of its job."""
    group = None if manifest.pgid is None else -manifest.pgid
    found: SentSignal | None = None
    for each in sent:
        is_ours = each.host == manifest.host and _is_since_start(each, manifest, header)
        is_other = each.sender != manifest.pid
        if is_ours and is_other and each.target in (manifest.pid, group):
            found = each
    return found


def _is_since_start(sent: SentSignal, manifest: ProcessManifest, header: Header | None) -> bool:
    """Say whether a signal was sent after a process started: its pid may have been another's."""
    if sent.mono_ns is not None and header is not None:
        return sent.mono_ns >= header.started_mono_ns
    return sent.unix_ns >= manifest.started_unix_ns


def signals_around(folder: ProcessFolder) -> tuple[SentSignal, ...]:
    """Read the signals of the run that a process is of."""
    return read_signals(RunFolder(folder.root.parent.parent).signals)


def _signal(line: bytes) -> SentSignal | None:
    host, *rest = line.decode("utf-8", "replace").split("\t")
    try:
        sender, unix_ns, target, number, *mono_ns = map(int, rest)
    except ValueError:
        return None
    return SentSignal(host, sender, unix_ns, target, number, *mono_ns[:1])
