"""Put a question to each shard of a run, and give what they tell. Merging is the asker's.

A part is made of one process alone, so that it is the same whoever makes it, and in whatever order.
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

# Characters by which the files of one question's details differ from another's.
_TOLD_BY = 8


@dataclass(frozen=True, slots=True)
class Needs:
    """What of a process a question looks at, beside its steps and notes."""

    captures: bool = True
    memory: bool = True
    spans: bool = True
    host_allocations: bool = True


@dataclass(frozen=True, slots=True)
class Query(Generic[P]):
    """What is made of one process: `part` is a function of a module, or a partial of one.

    `version` is another number whenever parts mean something else than before. Parts are kept
    where `kept_as` tells their type; `details` is what else they depend on.
    """

    name: str
    version: int
    part: Callable[[Profile, Shard], P]
    needs: Needs = field(default_factory=Needs)
    kept_as: type[P] | None = None
    details: str = ""


@dataclass(frozen=True, slots=True)
class FailedShard:
    """Stand in the place of a part that could not be had."""

    shard: Shard
    reason: str

    def problem(self) -> Problem:
        """Return it as a problem of the recording."""
        return Problem(self.shard.where, f"This process is not in the answer: {self.reason}")


@dataclass(frozen=True, slots=True)
class Task(Generic[P]):
    """A question to one shard. The part is kept where `identity` tells its files from others, and
    the program that reads them.
    """

    question: Query[P]
    shard: Shard
    identity: str | None = None


def ask(
    question: Query[P],
    shards: Sequence[Shard],
    runner: Runner,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[P | FailedShard, ...]:
    """Return the part of each shard, in their order, whoever is ready first.

    `watch(done, all)` is told how many shards have answered; of one that is read here, how many of
    its captures have been read.
    """
    return ask_each([Task(question, shard) for shard in shards], runner, watch)


def ask_each(
    items: Sequence[Task[P]],
    runner: Runner,
    watch: Callable[[int, int], None] | None = None,
) -> tuple[P | FailedShard, ...]:
    """Return the part of each shard, each with a question of its own, and keep what is to be
    kept; see `ask`. Whoever may find it kept looks with `kept_part` first.
    """
    # Of one process, read here, who waits is told of captures.
    if len(items) == 1 and isinstance(runner, Here):
        return (_answer(items[0], watch),)
    answers: list[P | FailedShard] = []
    # A runner that was begun ends its workers, whatever ends this.
    with closing(runner.run(_answer, items)) as results:
        for item, result in zip(items, results, strict=True):
            answers.append(
                FailedShard(item.shard, result.reason) if isinstance(result, Died) else result
            )
            if watch is not None:
                watch(len(answers), len(items))
    return tuple(answers)


def kept_part(item: Task[P]) -> P | None:
    """Return the part that was kept of these very files, or None."""
    if item.identity is None or item.question.kept_as is None:
        return None
    found: P | None = cache.read(*_place(item, item.identity), item.question.kept_as)
    return found


# Any: a part of whatever question it is.
def _answer(item: Task[Any], watch: Callable[[int, int], None] | None = None) -> Any:
    """Return the part of one shard; what goes wrong with it is no other's trouble."""
    try:
        return _made_part(item, watch)
    except TfprobeError as exc:
        return FailedShard(item.shard, str(exc))
    except OSError as exc:
        return FailedShard(item.shard, f"{exc.strerror or exc}.")
    except MemoryError:
        return FailedShard(item.shard, "It needs more memory than there is.")
    except Exception as exc:
        return FailedShard(item.shard, _unexpected(exc))


def _made_part(item: Task[P], watch: Callable[[int, int], None] | None) -> P:
    """Make the part of a shard, and keep it where that is wanted."""
    part = _part(item.question, item.shard, watch)
    if item.identity is not None and item.question.kept_as is not None:
        run = RunFolder(Path(item.shard.run))
        cache.write(run, *_place(item, item.identity), part, item.question.kept_as)
    return part


def _place(item: Task[P], identity: str) -> tuple[Path, str]:
    """Return the file that a part is kept in, and its key there."""
    question, shard = item.question, item.shard
    about = digest(question.name, question.version, question.details)
    name = f"{shard.folder}.{question.name}-{about[:_TOLD_BY]}.json"
    derived = RunFolder(Path(shard.run)).derived
    return derived / "parts" / shard.host / name, digest(about, identity, shard)


def _part(question: Query[P], shard: Shard, watch: Callable[[int, int], None] | None) -> P:
    needs = question.needs
    profile = load_shard(
        shard,
        with_captures=needs.captures,
        with_memory=needs.memory,
        with_spans=needs.spans,
        with_host_allocations=needs.host_allocations,
        watch=watch,
    )
    return question.part(profile, shard)


def _unexpected(exc: Exception) -> str:
    """Name the place, so that one line is enough for a bug report."""
    last = traceback.extract_tb(exc.__traceback__)[-1]
    name = type(exc).__name__
    return f"{name}: {exc} (at {last.filename}:{last.lineno}). This is a bug of tfprobe."


@dataclass(frozen=True, slots=True)
class ProcessParts:
    """The processes beside each other, and which of them could not be read."""

    across: RankComparison
    problems: tuple[Problem, ...]


def beside(
    folder: RunFolder,
    here: Machine,
    choose: Callable[[int, int], Runner],
    *,
    named: str = "",
    steps: tuple[int, int] | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> ProcessParts:
    """Return the processes of a run beside each other, by the work with `named` in its name; with
    `steps` by these alone, the first and the last.
    """
    shards = shards_of(folder, here)
    size_bytes = sum(capture_bytes(shard.process) for shard in shards)
    told = ask(QUESTION, shards, choose(len(shards), size_bytes), watch)
    parts = [each for each in told if not isinstance(each, FailedShard)]
    if steps is not None:
        parts = [rank_parts.within(part, *steps) for part in parts]
    lost = tuple(each.problem() for each in told if isinstance(each, FailedShard))
    return ProcessParts(rank_comparison.merge(parts, named=named), lost)


def _across_part(profile: Profile, _: Shard) -> RankPart:
    return rank_parts.part(profile)


QUESTION: Query[RankPart] = Query("ranks", 1, _across_part, Needs(memory=False))
