"""What the input page tells: the one stage first, the tree in the order in which it is drawn."""

from __future__ import annotations

import json
from typing import Any

from tests.support.open_runs import ToldRun
from tests.support.profiles import Span, Step, loop, op, profile
from tests.unit.analysis.input.test_verdict import ROOT, call, step
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.profile.profile import Profile
from tfprobe.web.pages import input as page
from tfprobe.web.params import Params

MAP = f"{ROOT}::Prefetch::Map"


def told(made: Profile, **arguments: str) -> dict[str, Any]:
    document = page.document(ToldRun(made), Params(arguments))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    return document


def sampled(*steps: Step, **changes: Any) -> Profile:
    return profile(steps, loops=[loop(remembered=4, sampled=len(steps))], **changes)


def test_the_bottleneck_is_told_with_its_remedy_and_the_path_to_it() -> None:
    """Steps wait for a map; above it is a prefetch."""
    spans = (call(f"{ROOT}::Prefetch", 0, 900), call(MAP, 0, 880, "b"))

    document = told(sampled(step(900, *spans)))

    item = document["input"]
    names = [each["name"] for each in item["pipeline"]["stages"]]
    assert (item["level"], names) == ("high", ["Root", "Prefetch", "Map"])
    bottleneck = item["pipeline"]["bottleneck"]
    assert item["pipeline"]["stages"][bottleneck]["name"] == "Map"
    assert item["pipeline"]["blocking_path"] == [0, 1, 2]
    assert item["remedies"]
    (listed,) = document["judged"]
    assert (listed["work"], listed["title"], listed["level"]) == (0, "session_run loss", "high")


def test_stages_stand_behind_their_parents() -> None:
    """A tree is drawn from the top; siblings stay in their order."""
    paths = ("Zip", "Zip::B", "Zip::A", "Zip::A::Deep")
    spans = [call(f"{ROOT}::{each}", 0, 50) for each in paths]

    stages = told(sampled(step(900, *spans)))["input"]["pipeline"]["stages"]

    assert [(each["depth"], each["name"]) for each in stages] == [
        (1, "Root"),
        (2, "Zip"),
        (3, "A"),
        (4, "Deep"),
        (3, "B"),
    ]


def test_a_buffer_tells_how_often_an_element_was_ready() -> None:
    """TensorFlow says at each call how full it was; what has no buffer says nothing."""
    facts = "buffer_limit:4 buffered_elements:3"
    spans = (
        call(f"{ROOT}::Prefetch", 0, 5, detail="buffer_limit:4"),
        call(f"{ROOT}::Prefetch", 5, 5, detail=facts),
        call(f"{ROOT}::Prefetch::Map", 10, 5, "b"),
    )

    stages = told(sampled(step(10, *spans)))["input"]["pipeline"]["stages"]

    by_name = {each["name"]: each["buffer"] for each in stages}
    assert by_name["Map"] is None
    assert by_name["Prefetch"] == {"elements": 3, "limit": 4, "ready_ratio": 0.5}


def test_a_pipeline_without_end_is_cut() -> None:
    """Ten thousand stages are no answer; how many more there are is one."""
    spans = [
        Span(SpanKind.ITERATOR, f"{ROOT}::Zip::Map{at}<script>", 0, 5, "step") for at in range(900)
    ]

    pipeline = told(sampled(step(900, *spans)))["input"]["pipeline"]

    assert len(pipeline["stages"]) == page.MOST_STAGES
    assert pipeline["more_stages"] == 902 - page.MOST_STAGES


def test_without_tf_data_its_absence_is_the_answer() -> None:
    """A Session that is fed has no pipeline."""
    document = told(sampled(Step([op("MatMul", 0, 100)])))

    assert "no call of an iterator" in document["input"]["pipeline"]["missing"]
    assert document["input"]["sources"] == []


def test_a_work_that_was_not_sampled_says_so() -> None:
    """Step times alone tell nothing of what steps wait for."""
    document = told(profile(loops=[loop()]))

    assert document["input"] is None
    assert document["missing"] == "No step of this loop was traced."
