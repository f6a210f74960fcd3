"""Ranks of DistributedDataParallel and of fully_shard: counted exactly, and not disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tf.laboratory import WAYS, Laboratory, Outcome, counted, counts, tfprobe_json

JOB = Path(__file__).parent / "jobs" / "sharded.py"
RANKS = 2
TRACED = 20


def outcomes_of(laboratory: Laboratory) -> dict[str, Outcome]:
    """Return the outcomes of the job: bare, by budget, and with every step traced."""
    return laboratory.outcomes(str(JOB))


def said(outcome: Outcome) -> list[str]:
    """Return what the job itself prints: gloo writes lines of its own, in any order."""
    lines = outcome.stdout.decode().splitlines()
    return [line for line in lines if line.startswith(("WEIGHTS ", "COUNTS "))]


@pytest.mark.parametrize("way", WAYS[1:])
def test_ranks_train_as_without_a_recording(laboratory, way) -> None:
    """Weights bit for bit, those of all shards put together."""
    outcomes = outcomes_of(laboratory)

    assert len(said(outcomes["bare"])) == 2
    assert said(outcomes[way]) == said(outcomes["bare"])
    assert outcomes[way].status == outcomes["bare"].status == 0


@pytest.mark.parametrize("way", WAYS[1:])
def test_every_step_of_every_rank_is_counted(laboratory, way) -> None:
    """By the program's own count, of both loops; torchrun itself has none."""
    outcome = outcomes_of(laboratory)[way]

    assert counts(outcome) == counted(outcome)
    ranks = [process["rank"] for process in outcome.report["processes"] if process["work"]]
    assert sorted(ranks) == list(range(RANKS))
    loops = [loop["count"] for loop in outcome.loops]
    assert loops == [loops[0]] * (2 * RANKS)
    assert "error in" not in outcome.agent_log


def test_ranks_meet_in_the_collectives_of_their_traced_steps(laboratory) -> None:
    """Gradients are reduced, parts of weights gathered: both ranks are compared."""
    outcome = outcomes_of(laboratory)["every"]

    found = tfprobe_json("ranks", str(outcome.run))

    ranks = [each["rank"] for each in found["ranks"] if each["rank"] is not None]
    assert ranks == list(range(RANKS))
    assert found["waits"]["steps"] >= TRACED
