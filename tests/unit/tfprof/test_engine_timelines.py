"""Our timelines are those of tfprof's own engine, recorded from TensorFlow 2.21."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.unit.tfprof.engine import CASES, choice, read, recorded
from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.scope_view import graph, scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.export.timeline import graph_timeline, tree_timeline


@pytest.mark.parametrize("case", CASES)
def test_timelines_are_the_engines_byte_for_byte(case: str) -> None:
    """Every file the engine wrote comes out the same."""
    folder = recorded(case)
    results = json.loads(gzip.decompress((folder / "results.json.gz").read_bytes()))
    profile = read(folder, results["steps"])
    files = sorted((folder / "out").glob("*_timeline.out_*"))

    differing = []
    for file in files:
        view, number, rest = file.name.split("_", 2)
        chosen = choice(results["results"][int(number)]["options"])
        step = int(rest.rpartition("_")[2])
        of_step = costs(profile, step)
        if view == "graph":
            ours = graph_timeline(profile, graph(profile, of_step, chosen), step)
        elif view == "scope":
            ours = tree_timeline(scope(profile, of_step, chosen))
        else:
            ours = tree_timeline(code(profile, of_step, chosen).shown)
        if ours != file.read_text():
            differing.append(file.name)

    assert differing == []
    assert files
