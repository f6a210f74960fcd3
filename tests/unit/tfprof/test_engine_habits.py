"""What made-up profiles showed of tfprof's engine, each with the least that shows it.

Found by tests/tf/test_engine.py, which asks the engine itself; expected texts are what it printed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tfprobe.analysis.ops.code_view import code
from tfprobe.analysis.ops.cost_tree import ViewOptions
from tfprobe.analysis.ops.op_view import op
from tfprobe.analysis.ops.scope_view import graph as graph_view
from tfprobe.analysis.ops.scope_view import scope
from tfprobe.analysis.ops.tfprof_records import costs
from tfprobe.export.profile_proto import profile_proto
from tfprobe.export.timeline import graph_timeline
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.profile_proto import graph_profile
from tfprobe.formats.schema import message_class
from tfprobe.profile.records import GraphProfile
from tfprobe.tfprof import layout

CHOICE = ViewOptions(as_engine=True, select=())


def graph() -> Any:
    """Return a GraphDef: a node that takes the second output of another, which has two shapes."""
    message = message_class("tfprobe.graph.GraphDef")()
    split = message.node.add(name="split", op="Split")
    for size in (2, 3):
        split.attr["_output_shapes"].list.shape.add().dim.add(size=size)
    message.node.add(name="taker", op="Relu", input=["split:1"])
    return message


def op_log(node: str, strings: dict[int, str]) -> bytes:
    """Return an OpLogProto by which `node` was made in line 7 of file 1, function 2."""
    message = message_class("tfprobe.tfprof.OpLogProto")()
    message.log_entries.add(name=node).code_def.traces.add(file_id=1, lineno=7, function_id=2)
    for number, text in strings.items():
        message.id_to_string[number] = text
    return bytes(message.SerializeToString())


def profile(*op_logs: bytes) -> GraphProfile:
    builder = GraphProfileBuilder()
    builder.add_graph(graph().SerializeToString())
    for each in op_logs:
        builder.add_op_log(each)
    return builder.profile()


def test_op_view_without_start_patterns_starts_at_the_top() -> None:
    """In the other views no pattern starts nothing; in this one it is no restriction."""
    found = profile()
    choice = replace(CHOICE, start_name_regexes=())

    view = op(found, costs(found, -1), choice)

    assert [entry.name for entry in view.entries] == ["Relu", "Split"]
    assert scope(found, costs(found, -1), choice).children == []


def test_a_pattern_may_trim_the_root() -> None:
    """`.*` as a trim pattern matches the root's name, too, and leaves nothing else."""
    found = profile()
    choice = replace(CHOICE, trim_name_regexes=(".*",))

    text = layout.scope_body(found, scope(found, costs(found, -1), choice), choice)

    assert text == "node name | \n_TFProfRoot ()\n"


def test_of_two_op_logs_the_first_numbers_the_strings() -> None:
    """A string of a later log whose number is taken is not seen."""
    found = profile(
        op_log("split", {1: "/a/train.py", 2: "main"}), op_log("taker", {1: "b.py", 2: "build"})
    )

    text = layout.code_body(found, code(found, costs(found, -1), CHOICE).shown, CHOICE)

    assert text == "node name | \n_TFProfRoot ()\n  train.py:7:main ()\n"


def test_our_file_knows_the_string_that_stands_for_none() -> None:
    """The engine ends its process where a trace names a string that is not in the table."""
    message = message_class("tfprobe.tfprof.ProfileProto")()

    message.ParseFromString(profile_proto(profile(op_log("split", {1: "a.py"}))))

    (frame,) = message.nodes[0].trace.traces
    assert {frame.file_id, frame.function_id, frame.line_id} <= set(message.id_to_string)


def test_input_shapes_are_of_the_first_output_unless_a_profile_says_which() -> None:
    """TensorFlow 2's engine forgets the output number as it reads a graph; files of TensorFlow 1
    have it, and it believes them.
    """
    choice = replace(CHOICE, select=("input_shapes",))
    message = message_class("tfprobe.tfprof.ProfileProto")()
    message.ParseFromString(profile_proto(profile()))
    written_by_2 = message.SerializeToString(deterministic=True)
    message.nodes[1].src_output_index[0] = 1
    written_by_1 = message.SerializeToString(deterministic=True)

    bodies = [
        layout.scope_body(each, scope(each, costs(each, -1), choice), choice)
        for each in (profile(), graph_profile(written_by_2), graph_profile(written_by_1))
    ]

    assert [body.splitlines()[-1].strip() for body in bodies] == [
        "taker (0:2)",
        "taker (0:2)",
        "taker (0:3)",
    ]
    assert profile_proto(graph_profile(written_by_1)) == written_by_1


def test_an_op_runs_once_however_many_patterns_match_it() -> None:
    """Its costs are added up for each pattern, its runs in the last column are not."""
    builder = GraphProfileBuilder()
    builder.add_graph(graph().SerializeToString())
    builder.add_step(0, run_metadata({CPU: [Node("taker", 1, 7)]}))
    found = builder.profile()
    choice = replace(
        CHOICE, account_type_regexes=("Relu", ".*"), select=("cpu_micros", "occurrence")
    )
    of_step = costs(found, -1)

    text = layout.op_body(found, of_step, op(found, of_step, choice), choice)

    assert text.splitlines()[1] == f"{'Relu':<25}{'14us (100.00%, 100.00%)':>30}, {'1|1':>10}"


def test_a_holder_too_large_for_the_sample_hides_no_smaller_one() -> None:
    """What is held and cannot be in the bytes in use is left out, and the list goes on."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    rows = message.step_stats.dev_stats.add(device="/gpu:0").node_stats
    for name, held in (("split", 5000), ("taker", 70)):
        row = rows.add(node_name=name, all_start_micros=500, op_end_rel_micros=100)
        row.memory.add(allocator_name="GPU_0_bfc", allocator_bytes_in_use=1000)
        row.memory_stats.persistent_memory_size = held
    builder = GraphProfileBuilder()
    builder.add_graph(graph().SerializeToString())
    builder.add_step(0, message.SerializeToString())
    found = builder.profile()

    text = graph_timeline(found, graph_view(found, costs(found, 0), CHOICE), 0)

    (top,) = [event for event in json.loads(text)["traceEvents"] if event["name"].startswith("Top")]
    assert top["args"]["Top Allocation 00"] == "7e-05 MB from taker"


@pytest.mark.parametrize("hidden", [(), ("producer",)])
def test_an_arrow_starts_at_the_box_that_has_its_producers_start(hidden: tuple[str, ...]) -> None:
    """Of two nodes that start at once on a device one has a box; the other's arrows leave there,
    even if the other is not shown.
    """
    message = message_class("tfprobe.graph.GraphDef")()
    message.node.add(name="first", op="Const")
    message.node.add(name="producer", op="Const")
    message.node.add(name="taker", op="Relu", input=["first", "producer"])
    builder = GraphProfileBuilder()
    builder.add_graph(message.SerializeToString())
    builder.add_step(0, run_metadata({CPU: [Node("first", 5), Node("producer", 5)]}))
    builder.add_step(0, run_metadata({"/gpu:0": [Node("taker", 90)]}))
    found = builder.profile()
    choice = replace(CHOICE, hide_name_regexes=hidden)

    text = graph_timeline(found, graph_view(found, costs(found, 0), choice), 0)

    flows = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "s"]
    assert [event["name"] for event in flows] == ["first_flow", "first_flow"]


def test_holders_of_as_much_are_listed_by_name() -> None:
    """Whatever order the view shows them in."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    rows = message.step_stats.dev_stats.add(device="/gpu:0").node_stats
    for name in ("taker", "split"):
        row = rows.add(node_name=name, all_start_micros=500, op_end_rel_micros=100)
        row.memory.add(allocator_name="GPU_0_bfc", allocator_bytes_in_use=1000)
        row.memory_stats.persistent_memory_size = 70
    builder = GraphProfileBuilder()
    builder.add_graph(graph().SerializeToString())
    builder.add_step(0, message.SerializeToString())
    found = builder.profile()

    text = graph_timeline(found, graph_view(found, costs(found, 0), CHOICE), 0)

    (top,) = [event for event in json.loads(text)["traceEvents"] if event["name"].startswith("Top")]
    assert top["args"]["Top Allocation 00"] == "7e-05 MB from split"
    assert top["args"]["Top Allocation 01"] == "7e-05 MB from taker"
