"""Lay the processes of a run beside each other: a part of each, merged in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfprobe.analysis.distributed import rank_comparison, rank_parts
from tfprobe.analysis.distributed.rank_comparison import Across
from tfprobe.analysis.distributed.rank_parts import RankPart
from tfprobe.profile.profile import Problem, Profile
from tfprobe.query.engine import Lost, Needs, Question, ask
from tfprobe.query.identity import capture_bytes
from tfprobe.query.runners import Runner
from tfprobe.query.shards import Shard, shards_of
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine


@dataclass(frozen=True, slots=True)
class Beside:
    """The processes beside each other, and which of them could not be read."""

    across: Across
    problems: tuple[Problem, ...]


def beside(
    folder: RunFolder,
    here: Machine,
    choose: Callable[[int, int], Runner],
    *,
    named: str = "",
    steps: tuple[int, int] | None = None,
    watch: Callable[[int, int], None] | None = None,
) -> Beside:
    """Return the processes of a run beside each other, by the work with `named` in its name; with
    `steps` by these alone, the first and the last.
    """
    shards = shards_of(folder, here)
    size_bytes = sum(capture_bytes(each.process) for each in shards)
    told = ask(QUESTION, shards, choose(len(shards), size_bytes), watch)
    parts = [each for each in told if not isinstance(each, Lost)]
    if steps is not None:
        parts = [rank_parts.within(each, *steps) for each in parts]
    lost = tuple(each.problem() for each in told if isinstance(each, Lost))
    return Beside(rank_comparison.merge(parts, named=named), lost)


def _part(profile: Profile, _: Shard) -> RankPart:
    return rank_parts.part(profile)


QUESTION: Question[RankPart] = Question("ranks", 1, _part, Needs(memory=False))
