"""The counts in `tfprobe report --json` are the job's own, for every door, sampled or not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tf.doors import JOBS, Job
from tests.tf.laboratory import Laboratory, Outcome
from tests.tf.requirements import need

FACTS = [pytest.param(job, fact, id=f"{job.id}-{fact}") for job in JOBS for fact in job.facts]


@pytest.mark.parametrize("way", ["budget", "every"])
@pytest.mark.parametrize(("job", "name"), FACTS)
def test_counts_are_the_jobs_own(laboratory: Laboratory, job: Job, name: str, way: str) -> None:
    """Whatever drives the training, and whether or not steps are traced, the report counts what
    the job counted. A thread may go on where one that has ended left off.
    """
    need(laboratory, job)
    outcome = laboratory.outcomes(*job.command)[way]
    assert outcome.status == 0, outcome.stderr[-3000:]
    fact = outcome.stated[name]
    if "reason" in fact:
        pytest.skip(fact["reason"])

    loops = matching(outcome, fact)

    counts = sorted((loop["count"] for loop in loops), reverse=True)
    assert _goes_on(sorted(fact["counts"], reverse=True), counts), seen(outcome)


def _goes_on(threads: list[int], loops: list[int]) -> bool:
    """Say whether the counts of loops are those of threads, each loop of one or several of them."""
    if not threads:
        return not any(loops)
    first, *others = threads
    return any(
        first <= loop and _goes_on(others, [*loops[:at], loop - first, *loops[at + 1 :]])
        for at, loop in enumerate(loops)
    )


# So many steps may go without, else two: a work's first step may be its discovery, an eager loop's
# last one may never end. Steps by hand are known by their fifth gradient.
_NOT_SAMPLED = {"GradientTape": 6}


# TensorFlow 1 has no profiler for eager steps, of which that job has no others.
@pytest.mark.parametrize(
    "job", [pytest.param(job, id=job.id) for job in JOBS if job.id != "keras-1-eager"]
)
def test_every_step_was_sampled_when_asked_for(laboratory: Laboratory, job: Job) -> None:
    """With `--every 1` each completed step of a work has a capture, whatever ran before it. Only of
    threads that run at once, one is traced at a time.
    """
    need(laboratory, job)
    outcome = laboratory.outcomes(*job.command)["every"]
    facts = [fact for fact in outcome.stated.values() if len(fact.get("counts", ())) == 1]

    declined = [event for event in outcome.events if event["event"] == "declined"]
    if any(event["why"].startswith("no profiler for this kind") for event in declined):
        pytest.skip("TensorFlow 1 has no profiler for eager steps and functions")

    short = {
        loop["name"]: (loop["count"], loop["sampled"])
        for fact in facts
        for loop in matching(outcome, fact)
        if loop["sampled"] < loop["count"] - _NOT_SAMPLED.get(loop["name"], 2)
    }

    assert short == {}, declined


@pytest.mark.parametrize("job", [pytest.param(job, id=job.id) for job in JOBS])
def test_the_agent_met_no_error_of_its_own(laboratory: Laboratory, job: Job) -> None:
    """A run of an ordinary job holds no error of ours and no stepping aside."""
    need(laboratory, job)
    outcomes = laboratory.outcomes(*job.command)

    trouble = [
        event
        for way in ("budget", "every")
        for event in outcomes[way].events
        if event["event"] in ("error", "aside")
    ]

    assert trouble == []


def matching(outcome: Outcome, fact: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the works a fact speaks of. A work whose every step raised has completed none and is
    not one.
    """
    kinds, has = fact["kinds"], fact["has"]
    return [
        loop
        for loop in outcome.loops
        if loop["kind"] in kinds and any(part in loop["name"] for part in has) and loop["count"] > 0
    ]


def seen(outcome: Outcome) -> str:
    """Return what was recorded, for the message of a failed test."""
    lines = [f"{loop['kind']:18} {loop['count']:6} {loop['name']}" for loop in outcome.loops]
    return "\n".join(["recorded works:", *lines, outcome.agent_log[-2000:]])
