"""Our report bodies are those of tfprof's own engine, recorded from TensorFlow 2.21."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import GOLDEN
from tfprobe.ingest.graph_profile import GraphProfileBuilder
from tfprobe.ingest.profile_proto import graph_profile
from tfprobe.model.records import GraphProfile
from tfprobe.tfprof import layout
from tfprobe.views.choice import METRICS, Choice
from tfprobe.views.code import code
from tfprobe.views.costs import costs
from tfprobe.views.graph import graph
from tfprobe.views.op import op
from tfprobe.views.scope import scope

ENGINE = GOLDEN / "engine_tf2.21"
# How many bodies each recording holds, so that a recording half read is noticed.
CASES = {
    "cpu_model_while_grad": 204,
    "syn_code": 68,
    "syn_devices": 51,
    "syn_gpu_loop": 51,
    "syn_multistep": 153,
    "syn_op": 51,
    "syn_tree": 51,
    "tfprof_testdata": 51,
}


@pytest.mark.parametrize("source", ["files", "profile"])
@pytest.mark.parametrize("case", CASES)
def test_bodies_are_the_engines_byte_for_byte(case: str, source: str) -> None:
    """Every recorded option set gives the same bytes from the column header down, from the files
    that went into the engine and from the profile that it wrote.
    """
    if not ENGINE.is_dir():
        pytest.skip(f"no recordings of the engine at {ENGINE}")
    if source == "profile" and (ENGINE / case / "profile_write_error.txt").exists():
        pytest.skip("the engine failed to write this profile")
    folder = ENGINE / case
    results = json.loads(gzip.decompress((folder / "results.json.gz").read_bytes()))
    profile = read(folder, results["steps"]) if source == "files" else read_profile(folder)
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


def read(folder: Path, steps: list[int]) -> GraphProfile:
    """Return the profile of a recording."""
    builder = GraphProfileBuilder()
    builder.add_graph((folder / "graph.pb").read_bytes())
    builder.add_op_log((folder / "op_log.pb").read_bytes())
    for step in steps:
        builder.add_step(step, (folder / f"run_meta_{step}.pb").read_bytes())
    return builder.profile()


def read_profile(folder: Path) -> GraphProfile:
    """Return the profile that the engine wrote."""
    packed = folder / "profile.pb.gz"
    if packed.exists():
        return graph_profile(gzip.decompress(packed.read_bytes()))
    return graph_profile((folder / "profile.pb").read_bytes())


def body_of(stdout: str) -> str | None:
    """Return what stands between the explanations and the end of a report."""
    _, found, rest = stdout.partition("Profile:\n")
    return rest.partition("\n======================End of Report")[0] if found else None


def choice(options: Mapping[str, Any]) -> Choice:
    """Return the options of a recording; what they do not name is as in tf.profiler."""
    least = {metric: options.get(f"min_{metric}", 0) for metric in METRICS}
    return Choice(
        max_depth=options.get("max_depth", 10),
        least={metric: value for metric, value in least.items() if value},
        step=options.get("step", -1),
        order_by=options.get("order_by", "name"),
        account_type_regexes=tuple(options.get("account_type_regexes", ())),
        start_name_regexes=tuple(options.get("start_name_regexes", ())),
        trim_name_regexes=tuple(options.get("trim_name_regexes", ())),
        show_name_regexes=tuple(options.get("show_name_regexes", ())),
        hide_name_regexes=tuple(options.get("hide_name_regexes", ())),
        account_displayed_op_only=options.get("account_displayed_op_only", False),
        select=tuple(options.get("select", ())),
    )


def body(profile: GraphProfile, view: str, chosen: Choice) -> str:
    """Return our body."""
    of_step = costs(profile, chosen.step)
    if view == "op":
        return layout.op_body(profile, of_step, op(profile, of_step, chosen), chosen)
    if view == "code":
        return layout.code_body(profile, code(profile, of_step, chosen).shown, chosen)
    tree = scope if view == "scope" else graph
    return layout.scope_body(profile, tree(profile, of_step, chosen), chosen)
