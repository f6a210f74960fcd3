"""What stacks say in few words: lines of the program, and where below them the time went."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.support.profiles import process, profile
from tests.support.stacks import FRAMES, sampled
from tfprobe.analysis.system.stack_lines import (
    hottest,
    is_of_program,
    stack_summaries,
    stacks_of,
    without_importers,
)
from tfprobe.analysis.system.stack_samples import process_trees, samples_within
from tfprobe.report.documents.stacks_document import stacks_document


def test_the_hottest_line_is_the_programs_own() -> None:
    """The innermost of its lines on the stack, and what took the time below it."""
    stacks = sampled(
        [(0, "main fit"), (10, "main fit execute"), (70, "main load"), (90, "execute")], end_ms=100
    )

    first, second, third = hottest(samples_within(stacks))

    assert (first.line, first.innermost, first.ratio) == (FRAMES["main"], FRAMES["execute"], 0.7)
    assert (second.line, second.innermost) == (FRAMES["load"], FRAMES["load"])
    assert third.line == FRAMES["execute"]


def test_files_that_are_installed_are_not_the_programs() -> None:
    """Packages, the standard library, importlib, the agent."""
    assert [name for name, frame in FRAMES.items() if is_of_program(frame)] == [
        "main", "load", "work",
    ]  # fmt: skip


def test_importers_are_left_out_and_their_time_is_not() -> None:
    """Modules that importlib loads by several of its lines stand together."""
    stacks = sampled(
        [(0, "main import load"), (10, "main import"), (15, "main import import load work"),
         (40, "main load")], end_ms=60,
    )  # fmt: skip
    tree = samples_within(stacks)

    found = without_importers(tree)

    names = {frame: name for name, frame in FRAMES.items()}
    told = [(" ".join(names[frame] for frame in stack), ns) for stack, ns in stacks_of(found)]
    assert sorted(told) == [
        ("main", 5_000_000), ("main load", 30_000_000), ("main load work", 25_000_000),
    ]  # fmt: skip
    assert sum(ns for _, ns in told) == tree.total_ns


def test_a_summary_has_the_samples_and_the_rate() -> None:
    """Of each process, those that could not be read too."""
    stacks = sampled([(0, "main")], end_ms=1000, samples=19)
    refused = replace(stacks, chunks=(), nodes=stacks.nodes[:0], refusals=("no",))
    refused = replace(
        refused, thread=stacks.thread[:0], read_ns=stacks.read_ns[:0],
        start_ns=stacks.start_ns[:0], end_ns=stacks.end_ns[:0],
    )  # fmt: skip

    found = stack_summaries(replace(profile(processes=[process()]), stacks=(stacks, refused)))

    assert [(each.samples, each.lasted_ns, each.most_rate_per_s) for each in found] == [
        (19, 1_000_000_000, 20), (0, 0, 0),
    ]  # fmt: skip
    assert [each.refusals for each in found] == [(), ("no",)]


def test_a_document_has_each_call_with_its_share() -> None:
    """Calls below the least share are left out."""
    stacks = sampled([(0, "main fit"), (99, "main load")], end_ms=100)
    found = process_trees(replace(profile(loops=[], processes=[process()]), stacks=(stacks,)))

    written = json.loads(json.dumps(stacks_document("r1", found, 0.05)))

    assert written["schema"] == "tfprobe.stacks/1"
    (thread,) = written["processes"][0]["threads"]
    (main,) = thread["calls"]
    assert [call["function"] for call in main["calls"]] == ["fit"]
    assert (main["calls"][0]["ratio"], main["ns"], thread["samples"]) == (0.99, 100_000_000, 100)
