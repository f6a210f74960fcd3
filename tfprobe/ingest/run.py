"""Turn a run directory into a profile. What cannot be read becomes a problem with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from tfprobe.errors import Missing, NoAnswer, UnreadableInput
from tfprobe.ingest import captures, service
from tfprobe.ingest.activities import with_all_traces
from tfprobe.ingest.gathered import Gathered
from tfprobe.ingest.notes import Notes, settings
from tfprobe.ingest.processes import process_of, run_of, work_of
from tfprobe.model.profile import Interpreter, Problem, Process, Profile, Work
from tfprobe.store.catalogue import ProcessEntry, RunEntry, glance
from tfprobe.store.events import EventLog, read_events, read_interpreters
from tfprobe.store.layout import ProcessFolder, RunFolder
from tfprobe.store.liveness import Machine
from tfprobe.store.manifests import ProcessManifest
from tfprobe.store.steps import StepsFile, read_steps


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
    """Read a run; `rank` keeps the processes of one rank, `with_captures` reads the op rows.

    Without `with_memory` the bytes of ops may be 0 whatever was recorded: reading them takes most
    of the time. Without `with_spans` there are no spans and no allocations, and rows do not tell
    which iterator of tf.data ran them: for those who need executions alone, and fast.
    `watch(done, all)` is told how many captures have been read.

    Raises NoAnswer when no process has that rank.
    """
    entry = glance(folder, here)
    chosen = [p for p in entry.processes if rank is None or _rank(p) == rank]
    if rank is not None and not chosen:
        raise NoAnswer(f"Run {folder.id} has no process of rank {rank}.", hint=_ranks(entry))
    count = sum(len(each.folder.capture_files()) for each in chosen) if watch else 0
    read = _Read(
        _run_problems(entry),
        with_memory=with_memory,
        with_spans=with_spans,
        watch=watch,
        expected=count,
    )
    for process in chosen:
        _read_process(process, read, with_captures=with_captures)
    read.notes.add_machines(folder, (process.host for process in read.processes))
    executions, spans, allocations = read.decoded.tables()
    return Profile(
        run=run_of(entry),
        processes=tuple(read.processes),
        interpreters=_interpreters(folder),
        works=with_all_traces(read.works, read.notes.activities),
        captures=tuple(read.decoded.captures),
        executions=executions,
        spans=spans,
        allocations=allocations,
        problems=(*read.problems, *read.notes.problems),
        activities=tuple(read.notes.activities),
        gaps=tuple(read.notes.gaps),
        pulses=tuple(read.notes.pulses),
    )


@dataclass(slots=True)
class _Read:
    """What has been read of a run so far."""

    problems: list[Problem]
    with_memory: bool
    with_spans: bool
    watch: Callable[[int, int], None] | None
    expected: int
    seen: int = 0
    processes: list[Process] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    works: list[Work] = field(default_factory=list)
    decoded: Gathered = field(default_factory=Gathered)

    def watched(self) -> None:
        """Tell who watches that one more capture is read."""
        self.seen += 1
        if self.watch is not None:
            self.watch(self.seen, self.expected)


def _read_process(entry: ProcessEntry, read: _Read, *, with_captures: bool) -> None:
    index = len(read.processes)
    where = f"{entry.folder.host}/{entry.folder.name}"
    if isinstance(entry.manifest, Missing):
        read.problems.append(Problem(where, entry.manifest.reason))
    elif entry.manifest.service is not None:
        _read_service(entry, entry.manifest, read, with_captures=with_captures)
        return
    steps = _steps(entry, where, read.problems)
    log = read_events(entry.folder.events)
    read.problems += _event_problems(log, where)
    read.processes.append(replace(process_of(entry, index), settings=settings(log)))
    if steps is not None:
        read.works += [work_of(record, index, steps.header) for record in steps.works]
    if with_captures:
        _read_captures(entry.folder, log, steps, read, process=index)
    read.notes.add(entry, log, read.processes[-1])


def _read_service(
    entry: ProcessEntry, manifest: ProcessManifest, read: _Read, *, with_captures: bool
) -> None:
    process = process_of(entry, len(read.processes))
    read.processes.append(process)
    read.watched()
    try:
        found = service.read(entry.folder, manifest, read.decoded.interner, process=process.index)
    except UnreadableInput as exc:
        where = f"{entry.folder.host}/{entry.folder.name}"
        read.problems.append(Problem(where, f"This recording was skipped: {exc}."))
        return
    read.processes[-1] = replace(process, captures=len(found.captures))
    read.works.append(found.work)
    if with_captures:
        read.notes.gaps += found.gaps
        read.decoded.add_all(found.captures, found.trace)


def _read_captures(
    folder: ProcessFolder,
    log: EventLog,
    steps: StepsFile | None,
    read: _Read,
    *,
    process: int,
) -> None:
    decoder = captures.Decoder(
        folder,
        log.events,
        steps,
        read.decoded.interner,
        process=process,
        with_memory=read.with_memory,
        with_spans=read.with_spans,
    )
    for item in decoder.decode_all():
        read.watched()
        if isinstance(item, Problem):
            read.problems.append(item)
            continue
        read.decoded.add(item)


def _steps(entry: ProcessEntry, where: str, problems: list[Problem]) -> StepsFile | None:
    try:
        steps = read_steps(entry.folder.steps)
    except UnreadableInput as exc:
        problems.append(Problem(where, str(exc)))
        return None
    problems += [Problem(where, text) for text in steps.problems]
    return steps


def _event_problems(log: EventLog, where: str) -> Iterable[Problem]:
    if log.bad_lines:
        yield Problem(where, f"{log.bad_lines} lines of events.jsonl are not events.")
    for event in log.events:
        if event.kind == "aside":
            why = event.text("why") or "it did not say why"
            yield Problem(where, f"The agent stepped aside, so later steps are missing: {why}.")
        if event.kind == "error":
            text = f"{event.text('where') or '?'}: {event.text('what') or '?'}"
            yield Problem(where, f"The agent noted an error of its own at {text}.")


def _run_problems(entry: RunEntry) -> list[Problem]:
    if isinstance(entry.manifest, Missing):
        return [Problem("run.json", entry.manifest.reason)]
    return []


def _rank(entry: ProcessEntry) -> int | None:
    manifest = entry.manifest
    return manifest.rank.index if isinstance(manifest, ProcessManifest) and manifest.rank else None


def _ranks(entry: RunEntry) -> str:
    ranks = sorted({r for r in map(_rank, entry.processes) if r is not None})
    return f"It has ranks {', '.join(map(str, ranks))}." if ranks else "Its processes have no rank."


def _interpreters(folder: RunFolder) -> tuple[Interpreter, ...]:
    rows = read_interpreters(folder.interpreters)
    return tuple(Interpreter(row.host, row.pid, row.version, row.executable) for row in rows)
