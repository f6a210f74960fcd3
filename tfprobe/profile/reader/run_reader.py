"""Read a run into a profile, once or repeatedly while it grows, reading only what is new."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.profile.activities import Activity
from tfprobe.profile.capture_tables import Executions
from tfprobe.profile.profile import Capture, Interpreter, Loop, Problem, Profile
from tfprobe.profile.reader.captures import Gathered, ProcessKey
from tfprobe.profile.reader.followed_captures import (
    LeftOut,
    Places,
    left_out,
    may_exceed,
    newest_of_pytorch,
    newest_within,
    typical,
    with_queued_steps,
)
from tfprobe.profile.reader.followed_process import FollowedProcess, FollowedService
from tfprobe.profile.reader.process_notes import (
    MachineNotes,
    behind_queued_steps,
    exposed_gaps,
    with_all_traces,
)
from tfprobe.profile.reader.processes import (
    no_rank,
    programs_of,
    run_of,
    run_problems,
    with_launch,
    with_program,
)
from tfprobe.runs.catalogue import RunEntry, has_ended, run_entry
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.manifests import Launches, read_run
from tfprobe.runs.process_folder.events import read_interpreters
from tfprobe.runs.process_folder.file_cache import Reread

T = TypeVar("T")

# Which fields of a profile are compared by identity and which by value; loops include arrays.
_TABLES = ("executions", "spans", "allocations")
_TUPLES = (
    "run",
    "processes",
    "interpreters",
    "captures",
    "problems",
    "activities",
    "compilations",
    "graph_breaks",
    "gaps",
    "resource_samples",
)


class RunReader:
    """One run directory, and what has been read from it.

    `has_ended` says whether the run was over before the last read, `left_out` which captures were
    not read because of `most_rows`.
    """

    def __init__(
        self,
        folder: RunFolder,
        here: Machine,
        *,
        rank: int | None = None,
        with_captures: bool = True,
        with_memory: bool = True,
        with_spans: bool = True,
        with_host_allocations: bool = True,
        only: ProcessFolder | None = None,
        most_rows: int | None = None,
    ) -> None:
        """Start with nothing read. See `load` for what the options leave out; without
        `with_host_allocations`, allocations of the host's own memory may be missing.

        With `only`, a process folder of the run, nothing else of the run is read: the profile has
        neither its interpreters nor its accelerators, and its state is that of the process. If all
        captures together have more rows than `most_rows`, only the newest are read.
        """
        self._folder = folder
        self._only = only
        self._here = here
        self._rank = rank
        self._with_captures = with_captures
        self._parts = {
            "with_memory": with_memory,
            "with_spans": with_spans,
            "with_host_allocations": with_host_allocations,
        }
        self._most_rows = most_rows
        self._rows_per_byte = 0.0
        self.left_out: LeftOut | None = None
        self._manifest = Reread(folder.manifest, read_run)
        self._launches = Launches(folder)
        self._gathered, self._nothing = Gathered(), Gathered()
        self._processes: dict[ProcessKey, FollowedProcess] = {}
        self._machines: dict[str, MachineNotes] = {}
        self._interpreters = Reread(folder.interpreters, read_interpreters)
        self._loops_from: tuple[object, ...] = ()
        self._loops: tuple[Loop, ...] = ()
        self._queued_from: tuple[object, ...] = (None,)
        self._queued: tuple[tuple[Loop, ...], tuple[Capture, ...]] = ((), ())
        self._last: Profile | None = None
        self.has_ended = False

    def refresh(self, watch: Callable[[int, int], None] | None = None) -> Profile:
        """Return the profile as `load` returns it now; if nothing is new, the previous object.

        `watch(done, all)` gets the number of new captures read.

        Raises NoAnswer if no process has the rank, UnreadableInput if the run is gone.
        """
        entry = self._read()
        self.has_ended = has_ended(entry, self._here)
        chosen = self._chosen()
        self._decode(chosen, watch)
        profile = self._profile(entry, chosen)
        self._check()
        if self._last is not None and _same(profile, self._last):
            return self._last
        self._last = profile
        return profile

    def _check(self) -> None:
        if self._last is not None and not self._folder.is_run():
            hint = "It was removed or moved, or closed to this user."
            raise UnreadableInput(f"Run {self._folder.root} no longer exists.", hint=hint)

    def _read(self) -> RunEntry:
        """Find the current processes, and read what determines their states."""
        found: dict[ProcessKey, FollowedProcess] = {}
        for folder in self._folders():
            process = self._processes.pop((folder.host, folder.name), None)
            if process is None:
                process = self._follow(folder)
            else:
                process.read()
            found[process.key] = process
        for gone in self._processes.values():
            gone.drop()
        self._processes = found
        manifest = self._manifest.value()
        entries = tuple(process.entry for process in found.values())
        launches = () if self._only else self._launches.known()
        exits = () if self._only else self._launches.exits()
        return run_entry(self._folder, manifest, entries, launches, exits, self._here)

    def _folders(self) -> tuple[ProcessFolder, ...]:
        if self._only is None:
            return self._folder.processes()
        if not self._only.is_process():
            raise UnreadableInput(f"Process folder {self._only.root} no longer exists.")
        return (self._only,)

    def _follow(self, folder: ProcessFolder) -> FollowedProcess:
        process = FollowedProcess(folder, self._here, self._gathered, **self._parts)
        manifest = process.entry.manifest
        if isinstance(manifest, Missing) or manifest.service is None:
            return process
        return FollowedService(folder, self._here, self._gathered, **self._parts)

    def _chosen(self) -> tuple[FollowedProcess, ...]:
        processes = tuple(self._processes.values())
        if self._rank is None:
            return processes
        chosen = tuple(process for process in processes if process.rank == self._rank)
        for process in set(processes).difference(chosen):
            process.drop()
        if not chosen:
            raise no_rank(self._folder, self._rank, [each.rank for each in processes])
        return chosen

    def _decode(
        self, chosen: Sequence[FollowedProcess], watch: Callable[[int, int], None] | None
    ) -> None:
        for index, process in enumerate(chosen):
            process.read_logs(index)
        count, done = sum(process.look_at_captures() for process in chosen), itertools.count(1)
        if not self._with_captures:
            count = self._keep_timed(chosen)
        elif self._most_rows is not None:
            count = self._fit(chosen, self._most_rows)
        for process in chosen:
            process.decode(lambda: None if watch is None else watch(next(done), count))

    def _keep_timed(self, chosen: Sequence[FollowedProcess]) -> int:
        """Admit what tells when devices have run the steps of PyTorch; return how many wait."""
        return sum(
            process.keep_captures(
                frozenset() if process.is_on_cpus else newest_of_pytorch(process.capture_files())
            )
            for process in chosen
        )

    def _fit(self, chosen: Sequence[FollowedProcess], most_rows: int) -> int:
        """Admit captures as far as their rows fit the budget; return how many wait."""
        files = [process.capture_files() for process in chosen]
        names = [frozenset(each.name for each in of_process) for of_process in files]
        if may_exceed(files, most_rows):
            self._rows_per_byte = self._rows_per_byte or _rows_per_byte(chosen, files)
            names = newest_within(files, most_rows, self._rows_per_byte)
        self.left_out = left_out(files, names)
        return sum(process.keep_captures(kept) for process, kept in zip(chosen, names, strict=True))

    def _profile(self, entry: RunEntry, chosen: Sequence[FollowedProcess]) -> Profile:
        programs = programs_of(entry.processes)
        first = () if isinstance(entry.manifest, Missing) else (entry.manifest,)
        launches = (*first, *entry.launches)
        processes = tuple(
            with_launch(
                with_program(process.process(index), programs[process.key]),
                process.entry,
                launches,
            )
            for index, process in enumerate(chosen)
        )
        notes = [process.notes for process in chosen]
        activities = _joined(note.activities for note in notes)
        executions, spans, allocations = self._gathered.tables()
        hosts = () if self._only else sorted({each.host for each in processes})
        machines = [self._machine(host) for host in hosts]
        resource_samples = [note.resource_samples for note in notes] + [
            machine.read() for machine in machines
        ]
        indices = {each.key: at for at, each in enumerate(chosen)}
        recorded = _joined(process.loops(index) for index, process in enumerate(chosen))
        loops, captures = self._with_queued_steps(
            self._with_all_traces(recorded, activities),
            self._gathered.captures(indices),
            executions,
        )
        if not self._with_captures:
            captures = ()
            executions, spans, allocations = self._nothing.tables()
        return Profile(
            run=run_of(entry),
            processes=processes,
            interpreters=self._known_interpreters(),
            loops=loops,
            captures=captures,
            executions=executions,
            spans=spans,
            allocations=allocations,
            nodes=self._gathered.nodes(indices),
            problems=(
                *(() if self._only else run_problems(entry)),
                *self._unread(),
                *(problem for process in chosen for problem in _problems(process)),
                *_joined(machine.problems for machine in machines),
            ),
            activities=behind_queued_steps(
                activities, loops, [process.unix_minus_monotonic_ns for process in processes]
            ),
            compilations=_joined(
                process.compilations(index) for index, process in enumerate(chosen)
            ),
            graph_breaks=_joined(
                process.graph_breaks(index) for index, process in enumerate(chosen)
            ),
            gaps=exposed_gaps(_joined(note.gaps for note in notes), loops),
            resource_samples=_joined(resource_samples),
            stacks=tuple(note.stacks for note in notes if note.stacks is not None),
        )

    def _known_interpreters(self) -> tuple[Interpreter, ...]:
        known = () if self._only else self._interpreters.value()
        return () if isinstance(known, Missing) else known

    def _unread(self) -> Iterator[Problem]:
        if self.left_out is not None:
            yield Problem("captures", str(self.left_out))

    def _with_all_traces(
        self, loops: tuple[Loop, ...], activities: tuple[Activity, ...]
    ) -> tuple[Loop, ...]:
        sources = (*loops, *activities)
        if not _are_the_same(sources, self._loops_from):
            self._loops_from, self._loops = sources, with_all_traces(loops, activities)
        return self._loops

    def _with_queued_steps(
        self, loops: tuple[Loop, ...], captures: tuple[Capture, ...], rows: Executions
    ) -> tuple[tuple[Loop, ...], tuple[Capture, ...]]:
        sources = (*loops, *captures, rows)
        if not _are_the_same(sources, self._queued_from):
            self._queued_from = sources
            self._queued = with_queued_steps(loops, captures, rows)
        return self._queued

    def _machine(self, host: str) -> MachineNotes:
        if host not in self._machines:
            self._machines[host] = MachineNotes(self._folder, host)
        return self._machines[host]


def _rows_per_byte(chosen: Sequence[FollowedProcess], files: Places) -> float:
    """Return the row density of captures: the highest of a few that are counted."""
    return max(
        (chosen[at].rows_in(each.name) / each.bytes for at, each in typical(files)),
        default=0.0,
    )


def _joined(parts: Iterable[Sequence[T]]) -> tuple[T, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def _problems(process: FollowedProcess) -> Iterator[Problem]:
    yield from process.problems()
    yield from process.notes.problems


def _same(one: Profile, other: Profile) -> bool:
    """Return whether two profiles from one reader are equal: unchanged parts are identical."""
    things = all(getattr(one, name) is getattr(other, name) for name in _TABLES)
    return (
        things
        and _are_the_same(one.loops, other.loops)
        and _are_the_same(one.stacks, other.stacks)
        and all(getattr(one, name) == getattr(other, name) for name in _TUPLES)
    )


def _are_the_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def load(
    folder: RunFolder,
    here: Machine,
    *,
    rank: int | None = None,
    with_captures: bool = True,
    with_memory: bool = True,
    with_spans: bool = True,
    watch: Callable[[int, int], None] | None = None,
) -> Profile:
    """Read a run; `rank` selects the processes of one rank, `with_captures` reads the op rows.

    Without `with_memory` the bytes of ops may be 0 whatever was recorded. Without `with_spans`
    there are no spans and no allocations, and rows lack the tf.data iterator that ran them: use it
    for executions alone, which are read faster. `watch(done, all)` gets the number of captures
    read.

    Raises NoAnswer if no process has that rank.
    """
    following = RunReader(
        folder,
        here,
        rank=rank,
        with_captures=with_captures,
        with_memory=with_memory,
        with_spans=with_spans,
    )
    return following.refresh(watch)
