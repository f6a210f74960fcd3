"""Compute what `report` and `advise` say of a run: summaries of its processes, merged in order.

The answer about a run that has ended is cached until a file of the run changes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.analysis.account.account import process_accounts
from tfprobe.analysis.breakdown.cycles import parts_by_loop
from tfprobe.analysis.system import application
from tfprobe.errors import UnreadableInput
from tfprobe.findings import collect
from tfprobe.findings import engine as rules
from tfprobe.findings.engine import Advice
from tfprobe.findings.rule import RunAnalysis
from tfprobe.findings.thresholds import DEFAULTS, Thresholds
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.traced_steps import costliest_loop
from tfprobe.query import cache
from tfprobe.query.cache import Files, digest, files_of, run_fingerprint, this_program
from tfprobe.query.process_pool import Here, Runner
from tfprobe.query.queries import FailedShard, Needs, Query, Task, cached_part, run_tasks
from tfprobe.query.shards import Shard, rest_of, shards_in
from tfprobe.report.documents import run_report
from tfprobe.report.documents.run_report import Report, ReportPart
from tfprobe.runs.catalogue import RunEntry, glance
from tfprobe.runs.layout import ProcessFolder, RunFolder
from tfprobe.runs.liveness import LIVE, Machine
from tfprobe.runs.process_folder.steps import read_steps

# Increase it whenever what is made of summaries means something else.
_VERSION = 3
# With so few processes it pays to look first whose graph will be needed.
_FEW = 8
# Characters by which answers with other thresholds, or for another rank, have other files.
_DIGEST_CHARACTERS = 8
# Less than this in captures and lines of one process is read in less time than Python takes to
# start: `tfprobe report` takes up to 1.3 times as long as with a cached answer, which therefore is
# not worth a file in the run. From 2 MB of captures on it is 1.7 times, with 8 MB 3.5.
UNCACHED_BYTES = 1 << 20
_Watch = Callable[[int, int], None]
# Choose who works, by the number of shards and the bytes of their captures.
Choice = Callable[[int, int], Runner]


@dataclass(frozen=True, slots=True)
class RunReport:
    """What `report` and `advise` say of a run."""

    report: Report
    advice: Advice


@dataclass(frozen=True, slots=True)
class _Queries:
    """What all queries of one answer have in common."""

    program: str
    files: Mapping[ProcessFolder, Files]
    limits: Thresholds
    choose: Choice

    def task(self, shard: Shard, *, is_joined: bool) -> Task[ProcessSummary]:
        """Return the task for a shard. What may change unnoticed is not cached."""
        # In a run of one process the cached answer contains everything in the summary.
        is_cached = len(self.files) > 1 and shard.state not in LIVE
        files = self.files.get(shard.process) if is_cached else None
        fingerprint = None if files is None else digest(self.program, files.fingerprint)
        return Task(summary_query(self.limits, is_joined=is_joined), shard, fingerprint)

    def run(
        self, tasks: Sequence[Task[ProcessSummary]], watch: _Watch | None
    ) -> list[ProcessSummary | FailedShard]:
        """Return the summary of each task: cached ones, and the rest from the chosen workers."""
        summaries: dict[int, ProcessSummary | FailedShard] = {}
        for index, task in enumerate(tasks):
            summary = cached_part(task)
            if summary is not None:
                summaries[index] = summary
        rest = [index for index in range(len(tasks)) if index not in summaries]
        if rest:
            folders = (tasks[index].shard.process for index in rest)
            known = [self.files[folder] for folder in folders if folder in self.files]
            runner = self.choose(len(rest), sum(files.capture_bytes for files in known))
            computed = run_tasks([tasks[index] for index in rest], runner, watch)
            summaries.update(zip(rest, computed, strict=True))
        return [summaries[index] for index in range(len(tasks))]


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

    `choose` returns who works on what is not cached; `watch(done, all)` gets their progress.

    Raises NoAnswer when no process has that rank.
    """
    # Looked at first: what changes while it is read has another fingerprint the next time.
    files = {process: files_of(process) for process in folder.processes()}
    program = digest(this_program(), here.host, here.boot_id, here.pid_namespace)
    about = digest(_VERSION, rank, limits)
    key = digest(program, about, str(folder.root), run_fingerprint(folder), list(files.items()))
    path = folder.derived / "answers" / f"report-{about[:_DIGEST_CHARACTERS]}.json"
    is_cached = _is_worth_caching(files.values())
    cached: RunReport | None = cache.read(path, key, RunReport) if is_cached else None
    if cached is not None:
        return cached
    entry = glance(folder, here)
    shards = shards_in(entry, rank=rank)
    summaries = _summaries(_Queries(program, files, limits, choose), shards, watch)
    computed = _merged(entry, summaries, limits)
    if is_cached and _is_final(entry, summaries):
        cache.write(folder, path, key, computed, RunReport)
    return computed


def _is_worth_caching(files: Collection[Files]) -> bool:
    return len(files) > 1 or any(
        file.capture_bytes + file.line_bytes >= UNCACHED_BYTES for file in files
    )


def _is_final(entry: RunEntry, summaries: Sequence[ProcessSummary | FailedShard]) -> bool:
    """Say whether the answer stays the same as long as no file changes."""
    states = {entry.state, *(process.state for process in entry.processes)}
    has_failed = any(isinstance(summary, FailedShard) for summary in summaries)
    return not states.intersection(LIVE) and not has_failed


def _summaries(
    queries: _Queries, shards: Sequence[Shard], watch: _Watch | None
) -> tuple[ProcessSummary | FailedShard, ...]:
    """Return the summary of each shard; the costliest loop is joined with its graph.

    Whose loop that is shows when all summaries are there. If the guess was wrong, the processes
    that it concerns are summarized again.
    """
    likely = _likely_costliest(shards)
    tasks = [queries.task(shard, is_joined=index == likely) for index, shard in enumerate(shards)]
    summaries = queries.run(tasks, watch)
    costliest = _costliest(summaries)
    wrong = [
        index
        for index, summary in enumerate(summaries)
        if isinstance(summary, ProcessSummary) and summary.is_joined != (index == costliest)
    ]
    tasks = [queries.task(shards[index], is_joined=index == costliest) for index in wrong]
    for index, summary in zip(wrong, queries.run(tasks, None), strict=True):
        # The first summary is better than none: it lacks names of scopes and lines, but no time.
        if isinstance(summary, ProcessSummary):
            summaries[index] = summary
    return tuple(summaries)


def _costliest(summaries: Sequence[ProcessSummary | FailedShard]) -> int | None:
    known = [
        (index, summary.analysis)
        for index, summary in enumerate(summaries)
        if isinstance(summary, ProcessSummary)
    ]
    found = collect.with_costliest_loop([analysis for _, analysis in known])
    return None if found is None else known[found][0]


def _likely_costliest(shards: Sequence[Shard]) -> int | None:
    """Return the shard whose traced loop takes most time, by steps.bin; None if there are many."""
    if len(shards) > _FEW:
        return None
    times_ns = [_longest_traced_ns(shard) for shard in shards]
    return times_ns.index(max(times_ns)) if any(times_ns) else None


def _longest_traced_ns(shard: Shard) -> int:
    try:
        loops = read_steps(shard.process.steps).loops
    except UnreadableInput:
        return 0
    return max((loop.times.sum_ns for loop in loops if loop.sampled), default=0)


def _merged(
    entry: RunEntry, summaries: Sequence[ProcessSummary | FailedShard], limits: Thresholds
) -> RunReport:
    """Return the answer, with a problem for each process that could not be read."""
    parts = [summary for summary in summaries if isinstance(summary, ProcessSummary)]
    lost = tuple(each.problem() for each in summaries if isinstance(each, FailedShard))
    hosts = [process.process.host for part in parts for process in part.report.processes]
    rest = rest_of(entry, hosts)
    whole = run_report.merge_report(
        rest.run, [each.report for each in parts], run_report.run_facts(rest)
    )
    if lost:
        silences = whole.silences if parts else ()
        whole = replace(whole, problems=(*whole.problems, *lost), silences=silences)
    analyses = [each.analysis for each in parts]
    return RunReport(whole, rules.judge(collect.merge(analyses, whole.slow), limits))


# Increase it whenever a summary means something else.
_SUMMARY_VERSION = 6


@dataclass(frozen=True, slots=True)
class ProcessSummary:
    """What `report` needs of a process. `is_joined`: the costliest loop has its graph and code."""

    report: ReportPart
    analysis: RunAnalysis
    is_joined: bool


def summary_query(limits: Thresholds, *, is_joined: bool) -> Query[ProcessSummary]:
    """Return the query that makes the summary of a process."""
    return Query(
        "report",
        _SUMMARY_VERSION,
        functools.partial(summarize, limits=limits, is_joined=is_joined),
        # Findings use the memory of accelerators only.
        needs=Needs(host_allocations=False),
        cached_as=ProcessSummary,
        details=repr((limits, is_joined)),
    )


def summarize(
    profile: Profile, shard: Shard, *, limits: Thresholds, is_joined: bool
) -> ProcessSummary:
    """Return the summary of a process from its profile."""
    loops = parts_by_loop(profile)
    did = application.activities(profile)
    found = process_accounts(profile, loops)
    joined = costliest_loop(RunFolder(Path(shard.run)), profile) if is_joined else ()
    return ProcessSummary(
        report=run_report.report_part(profile, loops, found),
        analysis=collect.analyse_processes(
            profile, joined, limits, cycles=loops, did=did, known_accounts=found
        ),
        is_joined=is_joined,
    )
