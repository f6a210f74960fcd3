"""Run a query on each shard of a run and return the parts. Merging them is up to the caller.

A part is made from one process alone, so it is the same whoever makes it, and in whatever order.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from tfprobe.analysis.distributed import rank_comparison, rank_parts
from tfprobe.analysis.distributed.rank_comparison import RankComparison
from tfprobe.analysis.distributed.rank_parts import RankPart
from tfprobe.errors import TfprobeError
from tfprobe.profile.profile import Problem, Profile
from tfprobe.query import cache
from tfprobe.query.cache import capture_bytes, digest
from tfprobe.query.process_pool import Died, Here, Runner
from tfprobe.query.shards import Shard, load_shard, shards_of
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

P = TypeVar("P")

# Characters by which files of queries with other details have other names.
_DIGEST_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Needs:
    """What a query needs of a process besides its steps and notes."""

    captures: bool = True
    memory: bool = True
    spans: bool = True
    host_allocations: bool = True


@dataclass(frozen=True, slots=True)
class Query(Generic[P]):
    """What is computed from one process: `part` is a function of a module, or a partial of one.

    Increase `version` whenever parts mean something else than before. Parts are cached if
    `cached_as` is their type; `details` is what else they depend on.
    """

    name: str
    version: int
    part: Callable[[Profile, Shard], P]
    needs: Needs = field(default_factory=Needs)
    cached_as: type[P] | None = None
    details: str = ""


@dataclass(frozen=True, slots=True)
class FailedShard:
    """Stand in for a part that could not be computed."""

    shard: Shard
    reason: str

    def problem(self) -> Problem:
        """Return it as a problem of the recording."""
        return Problem(self.shard.where, f"This process is not in the answer: {self.reason}")


@dataclass(frozen=True, slots=True)
class Task(Generic[P]):
    """A query on one shard. The part is cached if there is a `fingerprint`, of the shard's files
    and of the program that reads them.
    """

    query: Query[P]
    shard: Shard
    fingerprint: str | None = None


def run_query(
    query: Query[P],
    shards: Sequence[Shard],
    runner: Runner,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[P | FailedShard, ...]:
    """Return the part of each shard, in their order.

    `watch(done, all)` gets the number of shards that are done; for one that is read here, the
    number of its captures.
    """
    return run_tasks([Task(query, shard) for shard in shards], runner, watch)


def run_tasks(
    tasks: Sequence[Task[P]],
    runner: Runner,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[P | FailedShard, ...]:
    """Return the part of each task, and cache it if the task says so; see `run_query`.

    Parts that may be cached already are looked up with `cached_part` before.
    """
    # One process is read here without a pool, and its progress is that of its captures.
    if len(tasks) == 1 and isinstance(runner, Here):
        return (_run(tasks[0], watch),)
    parts: list[P | FailedShard] = []
    # However this ends, the runner's workers end with it.
    with closing(runner.run(_run, tasks)) as results:
        for task, result in zip(tasks, results, strict=True):
            parts.append(
                FailedShard(task.shard, result.reason) if isinstance(result, Died) else result
            )
            if watch is not None:
                watch(len(parts), len(tasks))
    return tuple(parts)


def cached_part(task: Task[P]) -> P | None:
    """Return the part that was cached for these very files, or None."""
    if task.fingerprint is None or task.query.cached_as is None:
        return None
    part: P | None = cache.read(*_place(task, task.fingerprint), task.query.cached_as)
    return part


# Any: the part of any query.
def _run(task: Task[Any], watch: Callable[[int, int], None] | None = None) -> Any:
    """Return the part of one shard; an error in it does not affect the others."""
    try:
        return _cache_part(task, watch)
    except TfprobeError as exc:
        return FailedShard(task.shard, str(exc))
    except OSError as exc:
        return FailedShard(task.shard, f"{exc.strerror or exc}.")
    except MemoryError:
        return FailedShard(task.shard, "It needs more memory than there is.")
    except Exception as exc:
        return FailedShard(task.shard, _unexpected(exc))


def _cache_part(task: Task[P], watch: Callable[[int, int], None] | None) -> P:
    """Compute the part of a shard, and cache it if the task says so."""
    part = _part(task.query, task.shard, watch)
    if task.fingerprint is not None and task.query.cached_as is not None:
        run = RunFolder(Path(task.shard.run))
        cache.write(run, *_place(task, task.fingerprint), part, task.query.cached_as)
    return part


def _place(task: Task[P], fingerprint: str) -> tuple[Path, str]:
    """Return the file that a part is cached in, and its key there."""
    query, shard = task.query, task.shard
    about = digest(query.name, query.version, query.details)
    name = f"{shard.folder}.{query.name}-{about[:_DIGEST_CHARACTERS]}.json"
    derived = RunFolder(Path(shard.run)).derived
    return derived / "parts" / shard.host / name, digest(about, fingerprint, shard)


def _part(query: Query[P], shard: Shard, watch: Callable[[int, int], None] | None) -> P:
    needs = query.needs
    profile = load_shard(
        shard,
        with_captures=needs.captures,
        with_memory=needs.memory,
        with_spans=needs.spans,
        with_host_allocations=needs.host_allocations,
        watch=watch,
    )
    return query.part(profile, shard)


def _unexpected(exc: Exception) -> str:
    """Say where it happened, so that one line is enough for a bug report."""
    last = traceback.extract_tb(exc.__traceback__)[-1]
    name = type(exc).__name__
    return f"{name}: {exc} (at {last.filename}:{last.lineno}). This is a bug in tfprobe."


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """The comparison of processes, and which of them could not be read."""

    across: RankComparison
    problems: tuple[Problem, ...]


def compare_ranks(
    folder: RunFolder,
    here: Machine,
    choose: Callable[[int, int], Runner],
    *,
    named: str = "",
    steps: tuple[int, int] | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> ProcessParts:
    """Compare the processes of a run by the loop with `named` in its name.

    With `steps`, the first and the last of a range, only these steps count.
    """
    shards = shards_of(folder, here)
    size_bytes = sum(capture_bytes(shard.process) for shard in shards)
    answers = run_query(_RANKS, shards, choose(len(shards), size_bytes), watch)
    parts = [part for part in answers if not isinstance(part, FailedShard)]
    if steps is not None:
        parts = [rank_parts.limit_to_steps(part, *steps) for part in parts]
    lost = tuple(part.problem() for part in answers if isinstance(part, FailedShard))
    return ProcessParts(rank_comparison.compare_parts(parts, named=named), lost)


def compare_profiles(
    profiles: Sequence[Profile],
    problems: tuple[Problem, ...],
    *,
    named: str = "",
    steps: tuple[int, int] | None = None,
) -> ProcessParts:
    """Compare processes that were read from files, each of which is one profile."""
    parts = [rank_parts.rank_part(profile) for profile in profiles]
    if steps is not None:
        parts = [rank_parts.limit_to_steps(part, *steps) for part in parts]
    return ProcessParts(rank_comparison.compare_parts(parts, named=named), problems)


def _across_part(profile: Profile, _: Shard) -> RankPart:
    return rank_parts.rank_part(profile)


_RANKS: Query[RankPart] = Query("ranks", 1, _across_part, Needs(memory=False))
