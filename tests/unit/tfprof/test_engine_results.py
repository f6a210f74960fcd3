"""Our answers are messages equal to those of tfprof's own engine, recorded from TensorFlow 2.21."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from google.protobuf import text_format

from tests.unit.tfprof.engine import CASES, choice, read, recorded
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.profile.graph import Graph, Node
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof import results
from tfprobe.tfprof.advice import advice_text, advise
from tfprobe.tfprof.options import lines, options_of
from tfprobe.tfprof.report import viewed

# The only select that pprof refuses: the engine then answers with nothing.
REFUSED = ("occurrence",)
HEAD = "\n=========================Options=============================\n"


@pytest.fixture(params=CASES)
def recording(request: pytest.FixtureRequest) -> tuple[GraphProfile, list[dict[str, Any]]]:
    """A profile and what the engine answered about it."""
    folder = recorded(request.param)
    answers = json.loads(gzip.decompress((folder / "results.json.gz").read_bytes()))
    return read(folder, answers["steps"]), answers["results"]


def test_messages_are_the_engines_field_by_field(recording) -> None:
    """Every recorded option set of every view gives the same message."""
    profile, recorded = recording
    asked = [each for each in recorded if each["view"] != "advise" and each["proto"]]

    differing = [
        f"{each['view']} {each['options']}"
        for each in asked
        if not _is_refused(each["options"])
        and _ours(profile, each) != _parsed(each["proto"], results.empty(each["view"]))
    ]

    assert differing == []
    assert len(asked) > 40


def test_the_list_of_options_is_the_engines(recording) -> None:
    """Above a printed report, one a line."""
    _, recorded = recording
    printed = [each for each in recorded if each["stdout"].startswith(HEAD)]

    differing = [
        each["options"]
        for each in printed
        if not each["stdout"].startswith(f"{HEAD}{lines(options_of(each['options'])[0])}\n===")
    ]

    assert differing == []
    assert len(printed) > 40


def test_advice_is_the_engines(recording) -> None:
    """Each checker says the same, and the same is printed, but for the order of checkers."""
    profile, recorded = recording
    (expected,) = [each for each in recorded if each["view"] == "advise"]

    advice = advise(profile)

    message = _parsed(expected["proto"], results.AdviceProto())
    assert results.advice(advice.reports) == message
    printed = advice_text(advice).split("\n\n")
    assert sorted(map(str.strip, printed)) == sorted(map(str.strip, _blocks(expected["stdout"])))


def test_a_chain_of_ten_thousand_ops_is_a_message(tmp_path) -> None:
    """The graph view nests one message in another for each op; walking and writing them works."""
    nodes = tuple(
        Node(name=f"op{at}", op="Identity", inputs={0: f"op{at - 1}"} if at else {})
        for at in range(10_000)
    )
    profile = GraphProfile(
        graph=Graph(nodes),
        steps=(),
        devices=(None,) * len(nodes),
        records=({},) * len(nodes),
        covered=0,
        lacks_stream=False,
    )
    chosen = ViewOptions(max_depth=20_000, as_engine=True)

    message = results.message(profile, viewed(profile, "graph", chosen))

    depth, deepest = 0, message
    while deepest.children:
        depth, deepest = depth + 1, deepest.children[0]
    assert (depth, deepest.name) == (10_000, "op0")
    assert len(message.SerializeToString()) > 10_000


def _ours(profile: GraphProfile, asked: dict[str, Any]) -> Any:
    seen = viewed(profile, asked["view"], choice(asked["options"]))
    return results.message(profile, seen)


def _parsed(text: str, message: Any) -> Any:
    return text_format.Parse(text, message)


def _is_refused(options: dict[str, Any]) -> bool:
    return options["output"].startswith("pprof") and tuple(options["select"]) == REFUSED


def _blocks(stdout: str) -> list[str]:
    """Return what each checker printed; a report of no lines leaves a gap and splits as well."""
    return stdout.split("\n\n")
