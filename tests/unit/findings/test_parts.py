"""The analysis of many processes is the same, whether they are read together or one by one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.profiles import Step, loop, op, process, profile
from tests.support.rank_runs import write_ranks
from tfprobe.analysis.distributed.rank_parts import rank_steps
from tfprobe.analysis.distributed.slow_ranks import slow_ranks
from tfprobe.errors import Missing
from tfprobe.findings.collect import analyse, analyse_processes, merge, with_costliest_loop
from tfprobe.findings.rule import LoopAnalysis
from tfprobe.findings.thresholds import DEFAULTS
from tfprobe.profile.reader import traced_steps
from tfprobe.profile.reader.run_reader import load
from tfprobe.query.shards import load_shard, shards_of
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine

ELSEWHERE = Machine("elsewhere", None)


@pytest.mark.parametrize(("ranks", "steps", "taken"), [(1, 30, 2), (3, 40, 6)])
def test_ranks_read_one_by_one_have_the_analysis_of_the_run(
    tmp_path: Path, ranks: int, steps: int, taken: int
):
    """To the last digit, with the ranks that are slow."""
    root = write_ranks(tmp_path / "run", ranks, steps, sampled=taken, resource_samples=10)
    whole = load(RunFolder(root), ELSEWHERE)

    parts = [
        pickle.loads(pickle.dumps(analyse_processes(load_shard(shard), (), DEFAULTS)))
        for shard in shards_of(RunFolder(root), ELSEWHERE)
    ]

    assert merge(parts, slow_ranks(rank_steps(whole))) == analyse(whole, (), DEFAULTS)


def test_the_work_to_join_with_its_code_is_that_of_the_whole_run(tmp_path: Path):
    """Only the process of the dearest loop reads a graph and a code map."""
    root = write_ranks(tmp_path / "run", 3, 40, sampled=2, resource_samples=4)
    whole = load(RunFolder(root), ELSEWHERE)

    shards = shards_of(RunFolder(root), ELSEWHERE)
    chosen = with_costliest_loop(
        [analyse_processes(load_shard(each), (), DEFAULTS) for each in shards]
    )

    (found,) = traced_steps.costliest_loop(RunFolder(root), whole)
    assert chosen == found.loop.process


def test_of_works_that_take_as_long_the_first_is_joined():
    """Whoever is asked first is not asked again with another answer."""
    same = profile([Step([op("MatMul", 0, 5)])], processes=[process()], loops=[loop()])
    bare = profile(processes=[process()], loops=[loop([10**12])])

    parts = [analyse_processes(each, (), DEFAULTS) for each in (bare, same, same)]

    assert with_costliest_loop(parts) == 1
    assert with_costliest_loop(parts[:1]) is None


def test_of_ops_that_take_as_long_the_first_to_run_comes_first():
    """In whatever order other processes, which are read before, ran ops of these types."""
    theirs, mine = (Step([op(a, 0, 5), op(b, 9, 5)]) for a, b in (("A", "B"), ("B", "A")))
    both = profile(
        [theirs, mine],
        processes=[process(), process(index=1)],
        loops=[loop(), loop(process=1)],
    )
    first, second = both.captures
    whole = replace(both, captures=(first, replace(second, process=1)))
    alone = profile([mine], processes=[process()], loops=[loop()])

    types_of_loops = [types(each) for each in analyse(whole, (), DEFAULTS).loops]

    assert types_of_loops == [["A", "B"], ["B", "A"]]
    assert types(analyse_processes(alone, (), DEFAULTS).loops[0]) == ["B", "A"]


def types(analysis: LoopAnalysis) -> list[str]:
    """Return the types of the ops of a loop, dearest first."""
    assert not isinstance(analysis.ops, Missing)
    return [use.type for use in analysis.ops.host]
