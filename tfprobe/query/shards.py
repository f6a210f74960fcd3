"""Divide a run into shards of one process folder each, and read a single shard. Merges nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.profile import Profile
from tfprobe.profile.programs import Program
from tfprobe.profile.reader.process_notes import MachineNotes
from tfprobe.profile.reader.processes import (
    no_rank,
    programs_of,
    run_of,
    run_problems,
    with_program,
)
from tfprobe.profile.reader.run_reader import RunReader
from tfprobe.profile.tables import empty
from tfprobe.runs.catalogue import RunEntry, glance
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine, ProcessEntry, this_machine
from tfprobe.runs.process_folder.events import read_interpreters


@dataclass(frozen=True, slots=True)
class Shard:
    """One process folder of a run: `run` is the run's directory.

    `state` is the state of the process as the caller sees it: a reader on another machine may not
    be able to determine it. With None, the reader looks it up. `program` is what the process runs,
    which depends on all processes of the run.
    """

    run: str
    host: str
    folder: str
    state: str | None = None
    program: Program | None = None

    @property
    def where(self) -> str:
        """Return its name in problems."""
        return f"{self.host}/{self.folder}"

    @property
    def process(self) -> ProcessFolder:
        """Return the paths of its files."""
        return ProcessFolder(Path(self.run) / self.host / self.folder)


def shards_of(run: RunFolder, here: Machine, *, rank: int | None = None) -> tuple[Shard, ...]:
    """Return the shards of a run in the order of its processes; with `rank` only those of it.

    Raises NoAnswer when no process has that rank.
    """
    return shards_in(glance(run, here), rank=rank)


def shards_in(entry: RunEntry, *, rank: int | None = None) -> tuple[Shard, ...]:
    """Return the shards of a run whose entry has been read; see `shards_of`."""
    chosen = [process for process in entry.processes if rank is None or _rank(process) == rank]
    if rank is not None and not chosen:
        raise no_rank(entry.folder, rank, map(_rank, entry.processes))
    known = programs_of(entry.processes)
    return tuple(_shard(entry.folder, each, known) for each in chosen)


def load_shard(
    shard: Shard,
    *,
    with_captures: bool = True,
    with_memory: bool = True,
    with_spans: bool = True,
    with_host_allocations: bool = True,
    watch: Callable[[int, int], None] | None = None,
) -> Profile:
    """Return the profile of one process alone, which is number 0 in it.

    `watch(done, all)` gets the number of captures that have been read. Accelerators of the machine,
    interpreters and problems of the run are not in the profile: see `rest_of`.

    Raises UnreadableInput if the folder does not exist or is removed while it is read.
    """
    folder = shard.process
    profile = RunReader(
        RunFolder(Path(shard.run)),
        this_machine(),
        with_captures=with_captures,
        with_memory=with_memory,
        with_spans=with_spans,
        with_host_allocations=with_host_allocations,
        only=folder,
    ).refresh(watch)
    if not folder.is_process():
        raise UnreadableInput(f"Process folder {folder.root} was removed while it was read.")
    (process,) = profile.processes
    if shard.state is not None:
        process = replace(process, state=shard.state)
    if shard.program is not None:
        process = with_program(process, shard.program)
    return replace(profile, processes=(process,))


def rest_of(entry: RunEntry, hosts: Sequence[str]) -> Profile:
    """Return what belongs to the run and to no process, as a profile without processes.

    That is interpreters, accelerators of the `hosts` of its processes, and problems of the run.
    """
    machines = [MachineNotes(entry.folder, host) for host in sorted(set(hosts))]
    resource_samples = tuple(
        resource_sample for machine in machines for resource_sample in machine.read()
    )
    machine_problems = [problem for machine in machines for problem in machine.problems]
    return Profile(
        run=run_of(entry),
        processes=(),
        interpreters=read_interpreters(entry.folder.interpreters),
        loops=(),
        captures=(),
        executions=empty(Executions),
        problems=(*run_problems(entry), *machine_problems),
        resource_samples=resource_samples,
    )


def _shard(run: RunFolder, entry: ProcessEntry, known: Mapping[tuple[str, str], Program]) -> Shard:
    host, name = entry.folder.host, entry.folder.name
    return Shard(str(run.root), host, name, entry.state, known[host, name])


def _rank(entry: ProcessEntry) -> int | None:
    manifest = entry.manifest
    known = None if isinstance(manifest, Missing) else manifest.rank
    return known.index if known else None
