"""Our report bodies are those of tfprof's own engine, recorded from TensorFlow 2.21."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.unit.tfprof.engine import CASES, body_of, choice, read, read_profile, recorded, rewritten
from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.op_view import op
from tfprobe.analysis.ops.scope_view import graph, scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof import layout

# The engine fails to write a profile of a graph in which an input is no node.
SOURCES = [
    (case, source)
    for case in CASES
    for source in ("files", "profile", "rewritten")
    if source == "files" or case != "syn_tree"
]


@pytest.mark.parametrize(("case", "source"), SOURCES)
def test_bodies_are_the_engines_byte_for_byte(case: str, source: str) -> None:
    """Every recorded option set gives the same bytes from the column header down, from the files
    that went into the engine, from the profile that it wrote, and from the one that we write.
    """
    folder = recorded(case)
    results = json.loads(gzip.decompress((folder / "results.json.gz").read_bytes()))
    profile = read_profile(folder) if source == "profile" else read(folder, results["steps"])
    if source == "rewritten":
        profile = rewritten(profile)
    bodies = {
        f"{at}: {result['view']} {result['options']}": (result, expected)
        for at, result in enumerate(results["results"])
        if (expected := body_of(result["stdout"])) is not None
    }

    differing = [
        what
        for what, (result, expected) in bodies.items()
        if body(profile, result["view"], choice(result["options"])) != expected
    ]

    assert differing == []
    assert len(bodies) == CASES[case]


def body(profile: GraphProfile, view: str, chosen: ViewOptions) -> str:
    """Return our body."""
    of_step = costs(profile, chosen.step)
    if view == "op":
        return layout.op_body(profile, of_step, op(profile, of_step, chosen), chosen)
    if view == "code":
        return layout.code_body(profile, code(profile, of_step, chosen).shown, chosen)
    tree = scope if view == "scope" else graph
    return layout.scope_body(profile, tree(profile, of_step, chosen), chosen)
