"""Look at runs again and again: they appear, run, end and vanish."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tfprobe.errors import Missing
from tfprobe.live.watched_process import HostClocks, WatchedProcess
from tfprobe.profile.activities import ResourceSample
from tfprobe.profile.profile import Problem
from tfprobe.profile.reader.processes import programs_of, run_of, with_program
from tfprobe.profile.snapshots import FleetSnapshot, ProcessSnapshot, RunSnapshot, TimeUse
from tfprobe.runs.catalogue import run_entry
from tfprobe.runs.layout import ProcessFolder, RunFolder, may_hold_processes
from tfprobe.runs.liveness import LIVE, UNKNOWN, Machine
from tfprobe.runs.manifests import Launches, RunManifest, read_run
from tfprobe.runs.process_folder.file_cache import SETTLED_S, Listing, Reread
from tfprobe.runs.process_folder.resource_samples import latest_of_machine

NANOSECONDS = 1_000_000_000


class Fleet:
    """The runs of a directory, or the run that it is itself, and what has been read of them.

    Not for several threads at once.
    """

    def __init__(
        self,
        directory: Path,
        here: Machine,
        *,
        latest: LatestTimeUse | None = None,
        clocks: HostClocks | None = None,
    ) -> None:
        """Begin with nothing read; `latest` gives where the time of a process goes."""
        self._directory = directory
        self._here = here
        self._latest = latest
        self._clocks = clocks or HostClocks()
        self._listing = Listing(directory)
        self._runs: dict[Path, WatchedRun] = {}

    def look(self) -> FleetSnapshot:
        """Return what the files say now; what cannot be read is a problem, or Missing.

        A directory that is not there has no runs; it may come.
        """
        now_s = self._clocks.mono_ns() / NANOSECONDS
        at_unix_ns = self._clocks.unix_ns()
        names = self._listing.names(now_s)
        self._meet(() if isinstance(names, Missing) else names)
        looks = [(run, run.look(now_s)) for run in self._runs.values()]
        started = [(_started_ns(run, look), look) for run, look in looks if look is not None]
        newest_first = sorted(started, key=lambda each: (each[0], each[1].run.id), reverse=True)
        return FleetSnapshot(
            directory=str(self._directory),
            at_unix_ns=at_unix_ns,
            runs=tuple(look for _, look in newest_first),
            problems=(Problem(".", names.reason),) if isinstance(names, Missing) else (),
        )

    def _meet(self, names: tuple[str, ...]) -> None:
        """Find out which runs there are."""
        alone = RunFolder(self._directory)
        shown = (name for name in names if not name.startswith("."))
        roots = [self._directory] if alone.is_run() else [self._directory / n for n in shown]
        known = self._runs
        self._runs = {}
        for root in roots:
            run = known.get(root)
            if run is None and RunFolder(root).is_run():
                run = WatchedRun(RunFolder(root), self._here, self._clocks, self._latest)
            if run is not None:
                self._runs[root] = run


def _started_ns(run: WatchedRun, look: RunSnapshot) -> int:
    if not isinstance(look.started_unix_ns, Missing):
        return look.started_unix_ns
    try:
        return os.stat(run.folder.root).st_mtime_ns
    except OSError:
        return 0


# A minute of them.
KEPT_OF_MACHINE = 64

_UNTOLD = Missing("run.json does not say")

LatestTimeUse = Callable[[ProcessFolder], TimeUse]


class WatchedRun:
    """One run directory, and what has been read of it."""

    def __init__(
        self, folder: RunFolder, here: Machine, clocks: HostClocks, latest: LatestTimeUse | None
    ) -> None:
        """Begin with nothing read."""
        self.folder = folder
        self._here = here
        self._clocks = clocks
        self._latest = latest
        self._manifest = Reread(folder.manifest, read_run)
        self._launches = Launches(folder)
        self._launched = Listing(folder.launches)
        self._listing = Listing(folder.root)
        self._hosts: dict[str, Listing] = {}
        self._processes: dict[tuple[str, str], WatchedProcess] = {}
        self._machines: dict[str, _WatchedMachine] = {}
        self._ended_at_s: float | None = None
        self._read_at_s = 0.0
        self._last: RunSnapshot | None = None
        self._folders: tuple[ProcessFolder, ...] = ()

    def look(self, now_s: float) -> RunSnapshot | None:
        """Return what the run is doing; None when it is gone."""
        known = tuple(self._processes)
        closed = tuple(self._list(now_s))
        if self._last is None or not self._rests() or known != tuple(self._processes):
            self._last = self._read(now_s, closed)
            self._read_at_s = now_s
        if not os.path.isdir(self.folder.root):
            return None
        return self._with_time_use(self._last)

    def _rests(self) -> bool:
        """Say whether all of it had ended a while before it was read last."""
        return self._ended_at_s is not None and self._read_at_s >= self._ended_at_s + SETTLED_S

    def _list(self, now_s: float) -> Iterator[Problem]:
        """Find the processes, and the directories that cannot be read."""
        processes: dict[tuple[str, str], WatchedProcess] = {}
        names = self._listing.names(now_s)
        if isinstance(names, Missing):
            yield Problem(".", names.reason)
            return
        hosts = tuple(filter(may_hold_processes, names))
        self._hosts = {host: self._hosts.get(host) or self._host(host) for host in hosts}
        for host, listing in self._hosts.items():
            folders = listing.names(now_s)
            if isinstance(folders, Missing):
                yield Problem(host, folders.reason)
                continue
            processes.update(self._of_host(host, filter(may_hold_processes, folders)))
        self._processes = processes

    def _host(self, name: str) -> Listing:
        return Listing(self.folder.root / name)

    def _of_host(
        self, host: str, names: Iterable[str]
    ) -> Iterator[tuple[tuple[str, str], WatchedProcess]]:
        for name in names:
            known = self._processes.get((host, name))
            folder = ProcessFolder(self.folder.root / host / name)
            if known is not None:
                yield (host, name), known
            elif folder.is_process():
                yield (host, name), WatchedProcess(folder, self._here, self._clocks)

    def _read(self, now_s: float, closed: tuple[Problem, ...]) -> RunSnapshot:
        manifest = self._manifest.value()
        looks = self._look_at_processes(now_s)
        watched = [process for process, _ in looks]
        self._folders = tuple(process.folder for process in watched)
        entries = tuple(process.entry for process in watched)
        names = self._launched.names(now_s)
        there = () if isinstance(names, Missing) else names
        launches, exits = self._launches.known(there), self._launches.exits(there)
        entry = run_entry(self.folder, manifest, entries, launches, exits, self._here)
        self._note_end(now_s, (entry.state, *(each.state for each in entries)))
        machines = self._look_at_machines({look.process.host for _, look in looks})
        known = manifest if isinstance(manifest, RunManifest) else None
        lost = manifest if isinstance(manifest, Missing) else _UNTOLD
        return RunSnapshot(
            run=run_of(entry),
            host=(known.host if known else None) or lost,
            user=(known.user if known else None) or lost,
            started_unix_ns=known.started_unix_ns if known else lost,
            processes=_with_programs(watched, [look for _, look in looks]),
            machines=machines,
            problems=(*_of_manifest(manifest), *closed, *self._problems(watched)),
        )

    def _look_at_processes(self, now_s: float) -> list[tuple[WatchedProcess, ProcessSnapshot]]:
        looks: list[tuple[WatchedProcess, ProcessSnapshot]] = []
        for process in self._processes.values():
            look = process.look(len(looks), now_s)
            if process.problems and not os.path.isdir(process.folder.root):
                continue  # removed meanwhile
            looks.append((process, look))
        return looks

    def _note_end(self, now_s: float, states: tuple[str, ...]) -> None:
        if any(state in (*LIVE, UNKNOWN) for state in states):
            self._ended_at_s = None
        elif self._ended_at_s is None:
            self._ended_at_s = now_s

    def _look_at_machines(self, hosts: set[str]) -> tuple[ResourceSample, ...]:
        for host in hosts - set(self._machines):
            self._machines[host] = _WatchedMachine(self.folder, host)
        found = (
            resource_sample
            for host in sorted(hosts)
            for resource_sample in self._machines[host].resource_samples()
        )
        return tuple(sorted(found, key=lambda resource_sample: resource_sample.at_ns))

    def _problems(self, processes: list[WatchedProcess]) -> Iterator[Problem]:
        for process in processes:
            yield from process.problems
        for host, machine in sorted(self._machines.items()):
            if machine.bad_lines:
                where = f"machine/{host}.jsonl"
                yield Problem(where, f"{machine.bad_lines} lines of it are no samples.")

    def _with_time_use(self, look: RunSnapshot) -> RunSnapshot:
        latest = self._latest
        if latest is None:
            return look
        pairs = zip(look.processes, map(latest, self._folders), strict=True)
        return replace(
            look,
            processes=tuple(
                replace(each, shares=used.shares, wall_time=used.wall_time) for each, used in pairs
            ),
        )


class _WatchedMachine:
    """The accelerators of one host, by its meter."""

    def __init__(self, folder: RunFolder, host: str) -> None:
        self._latest = latest_of_machine(folder.machine(host), host, keep=KEPT_OF_MACHINE)
        self._read: tuple[ResourceSample, ...] = ()
        self._resource_samples: tuple[ResourceSample, ...] = ()

    @property
    def bad_lines(self) -> int:
        return self._latest.bad_lines

    def resource_samples(self) -> tuple[ResourceSample, ...]:
        """Return the latest of them, oldest first."""
        samples = self._latest.read()
        if samples is not self._read:
            self._read = samples
            self._resource_samples = tuple(sorted(samples, key=lambda sample: sample.at_ns))
        return self._resource_samples


def _with_programs(
    watched: Sequence[WatchedProcess], looks: Sequence[ProcessSnapshot]
) -> tuple[ProcessSnapshot, ...]:
    known = programs_of([run.entry for run in watched])
    folders = (run.folder for run in watched)
    return tuple(
        replace(look, process=with_program(look.process, known[folder.host, folder.name]))
        for look, folder in zip(looks, folders, strict=True)
    )


def _of_manifest(manifest: RunManifest | Missing) -> tuple[Problem, ...]:
    if isinstance(manifest, Missing):
        return (Problem("run.json", manifest.reason),)
    return ()
