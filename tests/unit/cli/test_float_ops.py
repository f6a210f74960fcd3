"""`tfprobe op`, `scope`, `graph` and `code` show the float operations of what was recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import (
    CPU,
    GPU,
    Function,
    Node,
    Op,
    TraceEvent,
    graph_def,
    optimized,
    run_metadata,
    xspace,
)
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main
from tfprobe.formats.schema import message_class

GRAPH = "00f1ce"
BATCH = 64
CALL = "StatefulPartitionedCall"
# What a Keras fit of a convolution 28x28x1 -> 26x26x16 and a dense layer to 10 runs.
CONVOLUTION = 2 * (BATCH * 26 * 26) * 16 * (3 * 3 * 1)
MADE = BATCH * 26 * 26 * 16
DENSE = 2 * BATCH * 10 * (26 * 26 * 16)
FLAT = 26 * 26 * 16


def fit_graph() -> bytes:
    """The graph of a train function whose batch is open."""
    image, made = (-1, 28, 28, 1), (-1, 26, 26, 16)
    layout = {"data_format": "NHWC", "strides": (1, 1, 1, 1)}
    body = [
        Op("w", "ReadVariableOp", ["w_handle"], [(3, 3, 1, 16)]),
        Op("conv/Conv2D", "Conv2D", ["data", "w:value:0"], [made], layout),
        Op("conv/BiasAdd", "BiasAdd", ["conv/Conv2D:output:0"], [made]),
        Op("conv/Relu", "Relu", ["conv/BiasAdd:output:0"], [made]),
        Op("flat", "Reshape", ["conv/Relu:activations:0"], [(-1, FLAT)]),
        Op("k", "ReadVariableOp", ["k_handle"], [(FLAT, 10)]),
        Op("dense/MatMul", "MatMul", ["flat:output:0", "k:value:0"], [(-1, 10)]),
        Op("grad/k", "MatMul", ["flat:output:0", "dense/MatMul:product:0"], [(FLAT, 10)],
           {"transpose_a": True}),
        Op("grad/flat", "MatMul", ["dense/MatMul:product:0", "k:value:0"], [(-1, FLAT)],
           {"transpose_b": True}),
        Op("grad/made", "Reshape", ["grad/flat:product:0"], [made]),
        Op("grad/w", "Conv2DBackpropFilter", ["data", "sizes", "grad/made:output:0"],
           [(3, 3, 1, 16)], layout),
        Op("own", "MyOp", ["flat:output:0"], [(-1, 3)]),
    ]  # fmt: skip
    top = [
        Op("IteratorGetNext", "IteratorGetNext", ["iterator"], [image]),
        Op(CALL, CALL, ["IteratorGetNext"], attributes={"f": "step"}),
    ]
    return graph_def(top, {"step": Function(["data"], body)})


def fit_optimized() -> bytes:
    """The same after the optimizer, which put bias and activation into the convolution."""
    fused = {"fused_ops": ["BiasAdd", "Relu"]}
    return optimized(
        [
            Op(f"{CALL}/w", "ReadVariableOp", ["handle"]),
            Op(
                f"{CALL}/conv/Relu",
                "_MklNativeFusedConv2D",
                ["IteratorGetNext", f"{CALL}/w", "bias"],
                attributes=fused,
            ),
        ]
    )


def fit_step(*, batch_bytes: int = BATCH * 784 * 4) -> bytes:
    """A step of it: what ran, and what the dataset gave."""
    ran = [
        ("conv/Relu", "_MklNativeFusedConv2D", 40),
        ("dense/MatMul", "_MklMatMul", 20),
        ("grad/k", "_MklMatMul", 10),
        ("grad/flat", "_MklMatMul", 10),
        ("grad/w", "_MklNativeConv2DBackpropFilter", 10),
        ("flat", "Reshape", 5),
        ("own", "MyOp", 5),
    ]
    events, at = [], 10
    for name, op, duration_us in ran:
        events.append(TraceEvent(f"{CALL}/{name}:{op}", at, duration_us))
        at += duration_us
    data = [
        TraceEvent("IteratorGetNextOp::DoCompute", stats={"element_size": batch_bytes}),
        TraceEvent("Iterator::Root", stats={"shapes": "[?,28,28,1]", "types": "float"}),
    ]
    return xspace({"/host:CPU": {"executor": events, "data": data}}, start_ns=1)


def written(
    root: Path,
    captures: Sequence[bytes],
    suffix: str,
    graphs: dict[str, bytes],
    more_events: Sequence[dict[str, str]] = (),
) -> Path:
    steps = range(2, 2 + len(captures))
    names = [f"{at:06}-fit-0.{suffix}" for at in steps]
    events = [
        {"event": "sample", "work": 0, "step": at, "capture": name, "graph": GRAPH}
        for at, name in zip(steps, names, strict=True)
    ]
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=list(steps))],
        captures=dict(zip(names, captures, strict=True)),
        events=[*more_events, *events],
        graphs=graphs,
    )
    return write_run(root / "r1", [process])


FIT_GRAPHS = {f"{GRAPH}.graph.pb": fit_graph(), "work-0.optimized.pb": fit_optimized()}


@pytest.fixture
def fit(tmp_path: Path) -> Path:
    """A run of Keras with two traced steps."""
    return written(tmp_path, [fit_step(), fit_step()], "xplane.pb", FIT_GRAPHS)


def document(capsys, *words: str) -> Any:  # Any: a JSON document
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def by_place(found: Any) -> dict[str, int | None]:
    return {place["name"]: place["own"]["float_ops"] for place in found["places"]}


def test_every_layer_of_a_fit_counts_forward_and_backward(fit, capsys) -> None:
    """2 M N K each, with the batch told by the dataset; a step, not the sum of both."""
    found = by_place(document(capsys, "scope", str(fit)))

    assert found["conv/Relu"] == CONVOLUTION + 2 * MADE
    assert found["grad/w"] == CONVOLUTION
    assert found["dense/MatMul"] == DENSE
    assert found["grad/k"] == DENSE
    assert found["grad/flat"] == DENSE
    assert found["flat"] == 0


def test_what_is_not_known_is_null_and_told(fit, capsys) -> None:
    """An op without formula has no number; the document says which, why, and its time."""
    found = document(capsys, "op", str(fit))

    own = {entry["name"]: entry["own"]["float_ops"] for entry in found["ops"]}
    assert own["MyOp"] is None
    assert own["_MklMatMul"] == 3 * DENSE
    assert found["float_ops_coverage"] == {
        "float_ops": pytest.approx(0.9 / 0.95),
        "ops": pytest.approx(6 / 7),
        "time": pytest.approx(0.95),
        "unknown": [
            {
                "op": "MyOp",
                "reason": "there is no formula for this op",
                "time_ratio": pytest.approx(0.05),
            }
        ],
    }


@pytest.mark.parametrize("view", ["op", "scope", "graph"])
def test_text_has_a_column_and_a_line(fit, capsys, view) -> None:
    """In decimal units; what is not known is no 0."""
    assert main([view, str(fit), "-select", "float_ops"]) == 0

    text = capsys.readouterr().out
    assert "FLOPs" in text
    assert "MFLOP" in text
    own = next(line for line in text.splitlines() if ("MyOp" if view == "op" else "own") in line)
    assert own.split()[-1] == "–"
    together = " ".join(text.split())
    told = "FLOPs: about 94.7 % of them are known, of 85.7 % of the ops run; unknown: MyOp"
    assert told in together


def test_without_the_column_there_is_no_line(fit, capsys) -> None:
    """Who does not ask for float operations does not read of them."""
    assert main(["op", str(fit)]) == 0

    assert "FLOPs" not in capsys.readouterr().out


def test_ops_are_ordered_by_float_ops(fit, capsys) -> None:
    """`-order_by float_ops` puts the most first."""
    found = document(capsys, "op", str(fit), "-order_by", "float_ops")

    amounts = [entry["own"]["float_ops"] or 0 for entry in found["ops"]]
    assert amounts == sorted(amounts, reverse=True)
    assert found["ops"][0]["name"] == "_MklMatMul"
    assert found["ops"][0]["in_graph"] == ["MatMul"]


def test_batches_that_differ_leave_the_batch_unknown(tmp_path, capsys) -> None:
    """The first and the last traced step had not the same batch, so neither is taken."""
    steps = [fit_step(), fit_step(batch_bytes=8 * 784 * 4)]
    run = written(tmp_path, steps, "xplane.pb", FIT_GRAPHS)

    found = by_place(document(capsys, "scope", str(run)))

    assert found["dense/MatMul"] is None
    assert found["flat"] == 0


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Op("y", "MatMul", ["x", "w"], [(64, 5)]), 2 * 64 * 8 * 5),
        # A second trace of the function, for a smaller batch.
        (Op("y", "MatMul", ["x", "w"], [(16, 5)]), None),
        # Another function: the product is one of other tensors.
        (Op("y", "MatMul", ["a", "b"], [(64, 5)]), None),
    ],
)
def test_nodes_that_share_a_name_are_known_where_they_agree(
    tmp_path, capsys, other, expected
) -> None:
    """Which of them ran is not told by a name."""
    top = [Op("x", "Placeholder", shapes=[(-1, 8)]), Op("w", "Const", shapes=[(8, 5)])]
    first = Function([], [Op("y", "MatMul", ["x", "w"], [(64, 5)])])
    graph = graph_def(top, {"one": first, "two": Function([], [other])})
    captures = [run_metadata({CPU: [Node("y", label="y = MatMul(x, w)")]})]
    run = written(tmp_path, captures, "run_metadata.pb", {f"{GRAPH}.graph.pb": graph})

    found = by_place(document(capsys, "scope", str(run)))

    assert found["y"] == expected


def test_another_trace_of_the_function_may_have_run(tmp_path, capsys) -> None:
    """A sample names one graph of a function; what its other traces have otherwise is not known."""
    known, other = (
        graph_def([Op("x", "Placeholder", shapes=[(rows, 8)]), Op("y", "Neg", ["x"], [(rows, 8)])])
        for rows in (64, 16)
    )
    names = {GRAPH: known, "0ther": other}
    events = [
        {"event": "graph", "graph": each, "origin": "function", "name": "step"} for each in names
    ]
    graphs = {f"{each}.graph.pb": content for each, content in names.items()}
    captures = [xspace({"/host:CPU": {"executor": [TraceEvent("y:Neg")]}}, start_ns=1)]
    run = written(tmp_path, captures, "xplane.pb", graphs, more_events=events)

    found = by_place(document(capsys, "scope", str(run)))

    assert found["y"] is None


def test_a_fused_op_without_its_graph_is_unknown(tmp_path, capsys) -> None:
    """What ran is a convolution, and the node that the graph has there is a Relu."""
    graphs = {f"{GRAPH}.graph.pb": fit_graph()}
    run = written(tmp_path, [fit_step()], "xplane.pb", graphs)

    found = document(capsys, "scope", str(run))

    assert by_place(found)["conv/Relu"] is None
    reasons = {each["op"]: each["reason"] for each in found["float_ops_coverage"]["unknown"]}
    assert "optimized graph" in reasons["_MklNativeFusedConv2D"]


def test_a_session_step_counts_with_the_shapes_it_describes(tmp_path, capsys) -> None:
    """The placeholder has no batch; RunMetadata has the shapes of all outputs."""
    graph = graph_def(
        [
            Op("x", "Placeholder", shapes=[(-1, 784)]),
            Op("w", "VariableV2", shapes=[(784, 10)]),
            Op("product", "MatMul", ["x", "w"], [(-1, 10)]),
            Op("grad", "MatMul", ["x", "product"], [(784, 10)], {"transpose_a": True}),
            Op("loop", "Neg", ["product"], [(-1, 10)]),
        ]
    )
    rows = [
        Node("product", label="product = MatMul(x, w)", shape=(100, 10)),
        Node("grad", 20, label="grad = MatMul(x, product)", shape=(784, 10)),
        *(Node("loop", at, label="loop = Neg(product)", shape=(100, 10)) for at in (40, 60, 80)),
    ]
    captures = [run_metadata({CPU: rows})]
    run = written(tmp_path, captures, "run_metadata.pb", {f"{GRAPH}.graph.pb": graph})

    found = by_place(document(capsys, "scope", str(run)))

    assert found["product"] == 2 * 100 * 784 * 10
    assert found["loop"] == 3 * 1000


def test_kernels_of_a_launched_op_do_not_count_twice(tmp_path, capsys) -> None:
    """On a GPU a product has a row of the host and one of each kernel: it ran once."""
    graph = graph_def([Op("w", "Const", shapes=[(8, 8)]), Op("p", "MatMul", ["w", "w"], [(8, 8)])])
    launch = Node("p", label="p = MatMul(w, w)")
    kernels = [Node("p:MatMul", 0, 7), Node("p:MatMul", 7, 7)]
    captures = [run_metadata({GPU: [launch], f"{GPU}/stream:all": kernels})]
    run = written(tmp_path, captures, "run_metadata.pb", {f"{GRAPH}.graph.pb": graph})

    found = by_place(document(capsys, "scope", str(run)))

    assert found["p"] == 2 * 8 * 8 * 8


def test_float_ops_of_a_profile_proto_are_taken(tmp_path, capsys) -> None:
    """What an op log told of a node is told again, formula or not."""
    profile = message_class("tfprobe.tfprof.ProfileProto")()
    profile.steps.append(0)
    profile.id_to_string[1] = ""
    node = profile.nodes[1]
    node.name, node.op, node.id, node.float_ops = "mine", "MyOp", 1, 1234
    record = node.execs[0]
    record.run_count = 1
    span = record.cpu_execs["/device:cpu:0"].times.add()
    span.int64_values.extend((1_000_000, 10))
    path = tmp_path / "profile"
    path.write_bytes(profile.SerializeToString())

    found = document(capsys, "op", str(path))

    assert found["ops"][0]["own"]["float_ops"] == 1234
    assert found["float_ops_coverage"]["unknown"] == []
