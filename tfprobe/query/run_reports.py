"""Answer what `report` and `advise` say of a run: parts of its processes, merged in their order.

An answer about what has ended is kept, and read while no file of the run is another one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.analysis.account.account import process_accounts
from tfprobe.analysis.breakdown.cycles import parts_by_loop
from tfprobe.analysis.distributed.rank_lateness import rank_lateness
from tfprobe.analysis.system import application
from tfprobe.errors import UnreadableInput
from tfprobe.findings import collect
from tfprobe.findings import engine as rules
from tfprobe.findings.engine import Advice
from tfprobe.findings.rule import RunAnalysis
from tfprobe.findings.thresholds import DEFAULTS, Thresholds
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.traced_steps import dearest
from tfprobe.query import cache
from tfprobe.query.cache import Files, digest, files_of, identity_beside, this_program
from tfprobe.query.process_pool import Here, Runner
from tfprobe.query.queries import FailedShard, Needs, Query, Task, ask_each, kept_part
from tfprobe.query.shards import Shard, rest_of, shards_in
from tfprobe.report.documents import run_report
from tfprobe.report.documents.run_report import Report, ReportPart
from tfprobe.runs.catalogue import RunEntry, glance
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import LIVE, Machine
from tfprobe.runs.process_folder.steps import read_steps

# Another number whenever what is made of parts means something else.
_VERSION = 2
# Of so few processes it pays to look first whose graph will be wanted.
_FEW = 8
# Characters by which answers with other limits, or of another rank, have other files.
_TOLD_BY = 8
_Watch = Callable[[int, int], None]
# Who works, by the number of shards and the bytes of their captures.
Choice = Callable[[int, int], Runner]


@dataclass(frozen=True, slots=True)
class RunReport:
    """What there is to say of a run."""

    report: Report
    advice: Advice


@dataclass(frozen=True, slots=True)
class _Asking:
    """What all questions of one answer have alike."""

    program: str
    files: Mapping[ProcessFolder, Files]
    limits: Thresholds
    choose: Choice

    def of(self, shard: Shard, *, is_joined: bool) -> Task[ProcessSummary]:
        """Return what is asked of a shard. What may change unseen is not kept."""
        # Of a run of one process the answer says all that its part would.
        is_kept = len(self.files) > 1 and shard.state not in LIVE
        found = self.files.get(shard.process) if is_kept else None
        identity = None if found is None else digest(self.program, found.identity)
        return Task(question(self.limits, is_joined=is_joined), shard, identity)

    def ask(
        self, asked: Sequence[Task[ProcessSummary]], watch: _Watch | None
    ) -> list[ProcessSummary | FailedShard]:
        """Return what each tells: what was kept, and the rest from whoever is chosen for it."""
        found: dict[int, ProcessSummary | FailedShard] = {}
        for at, each in enumerate(asked):
            told = kept_part(each)
            if told is not None:
                found[at] = told
        rest = [at for at in range(len(asked)) if at not in found]
        if rest:
            folders = (asked[at].shard.process for at in rest)
            known = [self.files[folder] for folder in folders if folder in self.files]
            runner = self.choose(len(rest), sum(each.capture_bytes for each in known))
            answers = ask_each([asked[at] for at in rest], runner, watch)
            found.update(zip(rest, answers, strict=True))
        return [found[at] for at in range(len(asked))]


def answer(
    folder: RunFolder,
    here: Machine,
    *,
    rank: int | None = None,
    limits: Thresholds = DEFAULTS,
    choose: Choice = lambda _shards, _capture_bytes: Here(),
    watch: _Watch | None = None,
) -> RunReport:
    """Return the answer; `rank` keeps the processes of one rank.

    `choose` says who works on what is not known yet, `watch(done, all)` is told how far they are.

    Raises NoAnswer when no process has that rank.
    """
    # Looked at before all else: what changes while it is read is another run at the next look.
    files = {process: files_of(process) for process in folder.processes()}
    program = digest(this_program(), here.host, here.boot_id, here.pid_namespace)
    about = digest(_VERSION, rank, limits)
    beside = identity_beside(folder)
    key = digest(program, about, str(folder.root), beside, list(files.items()))
    path = folder.derived / "answers" / f"report-{about[:_TOLD_BY]}.json"
    found: RunReport | None = cache.read(path, key, RunReport)
    if found is not None:
        return found
    entry = glance(folder, here)
    shards = shards_in(entry, rank=rank)
    told = _tell(_Asking(program, files, limits, choose), shards, watch)
    made = _merged(entry, told, limits)
    if _is_lasting(entry, told):
        cache.write(folder, path, key, made, RunReport)
    return made


def _is_lasting(entry: RunEntry, told: Sequence[ProcessSummary | FailedShard]) -> bool:
    """Say whether nothing of an answer will be otherwise while no file is."""
    states = {entry.state, *(process.state for process in entry.processes)}
    return not states.intersection(LIVE) and not any(isinstance(each, FailedShard) for each in told)


def _tell(
    asking: _Asking, shards: Sequence[Shard], watch: _Watch | None
) -> tuple[ProcessSummary | FailedShard, ...]:
    """Return what each shard tells; the one with the dearest loop joins it with its graph.

    Which one that is shows when all have told. Where it was not foreseen it is asked again.
    """
    likely = _likely_dearest(shards)
    asked = [asking.of(shard, is_joined=at == likely) for at, shard in enumerate(shards)]
    told = asking.ask(asked, watch)
    dearest = _dearest(told)
    wrong = [
        at
        for at, each in enumerate(told)
        if isinstance(each, ProcessSummary) and each.is_joined != (at == dearest)
    ]
    again = asking.ask([asking.of(shards[at], is_joined=at == dearest) for at in wrong], None)
    for at, each in zip(wrong, again, strict=True):
        # What was told once is better than nothing: it lacks names of scopes and lines, no time.
        told[at] = each if isinstance(each, ProcessSummary) else told[at]
    return tuple(told)


def _dearest(told: Sequence[ProcessSummary | FailedShard]) -> int | None:
    known = [
        (at, each.analysis) for at, each in enumerate(told) if isinstance(each, ProcessSummary)
    ]
    found = collect.with_costliest_loop([analysis for _, analysis in known])
    return None if found is None else known[found][0]


def _likely_dearest(shards: Sequence[Shard]) -> int | None:
    """Return the shard whose sampled loop takes most time, by steps.bin; None of many."""
    if len(shards) > _FEW:
        return None
    times_ns = [_most_sampled_ns(shard) for shard in shards]
    return times_ns.index(max(times_ns)) if any(times_ns) else None


def _most_sampled_ns(shard: Shard) -> int:
    try:
        loops = read_steps(shard.process.steps).loops
    except UnreadableInput:
        return 0
    return max((loop.times.sum_ns for loop in loops if loop.sampled), default=0)


def _merged(
    entry: RunEntry, told: Sequence[ProcessSummary | FailedShard], limits: Thresholds
) -> RunReport:
    """Return the answer of all that was told, in which what is lost is said to be."""
    parts = [each for each in told if isinstance(each, ProcessSummary)]
    lost = tuple(each.problem() for each in told if isinstance(each, FailedShard))
    hosts = [process.process.host for part in parts for process in part.report.processes]
    rest = rest_of(entry, hosts)
    whole = run_report.merge(rest.run, [each.report for each in parts], run_report.beside(rest))
    if lost:
        silences = whole.silences if parts else ()
        whole = replace(whole, problems=(*whole.problems, *lost), silences=silences)
    analyses = [each.analysis for each in parts]
    processes = [process.process for process in whole.processes]
    events = run_report.met([each.report for each in parts])
    # A process alone is late to nothing.
    several = len(parts) > 1
    lateness = rank_lateness(collect.loop_names(analyses), processes, events) if several else {}
    return RunReport(whole, rules.judge(collect.merge(analyses, lateness), limits))


# Another number whenever a process tells something else.
_TOLD_VERSION = 5


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """What a process tells. `is_joined`: its dearest loop is joined with its graph and code."""

    report: ReportPart
    analysis: RunAnalysis
    is_joined: bool


def question(limits: Thresholds, *, is_joined: bool) -> Query[ProcessSummary]:
    """Return what each process is asked."""
    return Query(
        "report",
        _TOLD_VERSION,
        functools.partial(tell, limits=limits, is_joined=is_joined),
        # Advice knows the memory of accelerators alone.
        needs=Needs(host_allocations=False),
        kept_as=ProcessSummary,
        details=repr((limits, is_joined)),
    )


def tell(profile: Profile, shard: Shard, *, limits: Thresholds, is_joined: bool) -> ProcessSummary:
    """Return what a process tells, by its profile."""
    loops = parts_by_loop(profile)
    did = application.activities(profile)
    found = process_accounts(profile, loops)
    joined = dearest(RunFolder(Path(shard.run)), profile) if is_joined else ()
    return ProcessSummary(
        report=run_report.part(profile, loops, found),
        analysis=collect.analyse_processes(
            profile, joined, limits, cycles=loops, did=did, known_accounts=found
        ),
        is_joined=is_joined,
    )
