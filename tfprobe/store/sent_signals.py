"""Read which process of a job told which other one to end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tfprobe.store import lines
from tfprobe.store.layout import ProcessFolder, RunFolder
from tfprobe.store.manifests import ProcessManifest


@dataclass(frozen=True, slots=True)
class SentSignal:
    """A signal that a process of the job sent: to a process, or to the group `-target`."""

    host: str
    sender: int
    unix_ns: int
    target: int
    number: int


def read_signals(path: Path) -> tuple[SentSignal, ...]:
    """Read which signals the job's own processes sent; an absent file holds none."""
    rows = (_signal(line) for line in lines.whole_lines(path))
    return tuple(row for row in rows if row is not None)


def signal_to(manifest: ProcessManifest, sent: Iterable[SentSignal]) -> SentSignal | None:
    """Return the latest signal that a process got from another one of its job."""
    group = None if manifest.pgid is None else -manifest.pgid
    found: SentSignal | None = None
    for each in sent:
        is_ours = each.host == manifest.host and each.unix_ns >= manifest.started_unix_ns
        is_other = each.sender != manifest.pid
        if is_ours and is_other and each.target in (manifest.pid, group):
            found = each
    return found


def signals_around(folder: ProcessFolder) -> tuple[SentSignal, ...]:
    """Read the signals of the run that a process is of."""
    return read_signals(RunFolder(folder.root.parent.parent).signals)


def _signal(line: bytes) -> SentSignal | None:
    host, *rest = line.decode("utf-8", "replace").split("\t")
    try:
        sender, unix_ns, target, number = map(int, rest)
    except ValueError:
        return None
    return SentSignal(host, sender, unix_ns, target, number)
