"""Read the recordings of tfprof's own engine."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.golden import golden
from tfprobe.analysis.ops.cost_tree import METRICS, ViewOptions
from tfprobe.export.profile_proto import profile_proto
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.profile_proto import graph_profile
from tfprobe.profile.records import GraphProfile

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


def recorded(case: str) -> Path:
    """Return the folder of a recording of the engine; skips the test where there are none."""
    return golden("engine_tf2.21", case)


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


def choice(options: Mapping[str, Any]) -> ViewOptions:
    """Return the options of a recording; what they do not name is as in tf.profiler."""
    least = {metric: options.get(f"min_{metric}", 0) for metric in METRICS}
    return ViewOptions(
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
        as_engine=True,
    )


def rewritten(profile: GraphProfile) -> GraphProfile:
    """Return the profile as it comes back from our own file."""
    return graph_profile(profile_proto(profile))
