"""A file from elsewhere is read as the step it holds, whatever kind it is of."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.support.captures import CPU, GPU, Node, TraceEvent, run_metadata, xspace
from tests.support.golden import golden
from tfprobe.errors import UnreadableInput
from tfprobe.export.profile_proto import profile_proto
from tfprobe.formats.graph_profile import GraphProfileBuilder
from tfprobe.formats.schema import message_class
from tfprobe.profile.reader.file import sampled_file

LABEL = "m/a = MatMul(x, y)"


def graph() -> bytes:
    message = message_class("tfprobe.graph.GraphDef")()
    message.node.add(name="m/a", op="MatMul")
    return bytes(message.SerializeToString())


def profile() -> bytes:
    builder = GraphProfileBuilder()
    builder.add_graph(graph())
    for step in (3, 9):
        nodes = [Node("m/a", 0, 10 + step, requested_bytes=64)]
        builder.add_step(step, run_metadata({CPU: nodes}))
    return profile_proto(builder.profile())


def timeline(process: str, **args: str) -> bytes:
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": process}}
    box = {"ph": "X", "pid": 1, "tid": 0, "ts": 5, "dur": 7, "name": "m/a:MatMul", "args": args}
    return json.dumps({"traceEvents": [named, box]}).encode()


FILES = {
    "RunMetadata": lambda: run_metadata({CPU: [Node("m/a", 5, 7, label=LABEL)]}),
    "XSpace": lambda: xspace({"/host:CPU": {"t": [TraceEvent("m/a:MatMul", 5, 7)]}}),
    "client timeline": lambda: timeline(f"{CPU} Compute", name="m/a", op="MatMul"),
    "trace viewer": lambda: timeline("/host:CPU"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_a_step_is_read_from_any_kind_of_file(tmp_path: Path, kind: str, packed: bool) -> None:
    """Name, op and time come out the same, packed by gzip or not."""
    content = FILES[kind]()
    path = tmp_path / "step"
    path.write_bytes(gzip.compress(content) if packed else content)

    found = sampled_file(path)

    (row,) = found.executions
    assert (row.name, row.op_type, row.duration_ns) == ("m/a", "MatMul", 7000)
    assert [node.name for node in found.graph.nodes] == ["m/a"]


def test_a_message_that_begins_as_json_does_is_read(tmp_path: Path) -> None:
    """Its first field's tag and length may be a line end and a brace."""
    path = tmp_path / "step"
    for length in range(40):
        node = Node("m/" + "a" * length, 5, 7, label=LABEL)
        content = run_metadata({CPU: [node]})
        if content.lstrip()[:1] in (b"{", b"["):
            break
    path.write_bytes(content)

    assert content.lstrip()[:1] in (b"{", b"[")
    assert len(sampled_file(path).executions) == 1


def test_all_steps_of_a_profile_are_read(tmp_path: Path) -> None:
    """A ProfileProto holds steps by number, with the memory of each."""
    path = tmp_path / "profile_9"
    path.write_bytes(profile())

    found = sampled_file(path)

    assert [capture.step for capture in found.captures] == [3, 9]
    assert found.executions.duration_ns.tolist() == [13_000, 19_000]
    assert found.executions.bytes.tolist() == [64, 64]


def test_tfprofs_own_timeline_tells_kernels_from_launches(tmp_path: Path) -> None:
    """Its processes are named by what their boxes are."""
    path = tmp_path / "timeline_0"
    path.write_bytes(timeline(f"Op execution threads: {GPU}/stream:all", name="m/a"))

    (row,) = sampled_file(path).executions

    assert row.place.name == "ACCELERATOR"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"{}", "without trace events"),
        (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}', "no box is an op"),
        (timeline("/host:CPU").replace(b'"ts": 5', b'"ts": "x"'), "without a start"),
        (b"root:x:0:0:root:/root:/bin/bash\n", "neither"),
        (b"\x1f\x8bnothing", "damaged gzip"),
        (graph(), "says nothing about time"),
    ],
)
def test_what_is_no_step_is_refused_in_words(tmp_path: Path, content: bytes, says: str) -> None:
    """The file is named, and what it is if that can be told."""
    path = tmp_path / "odd"
    path.write_bytes(content)

    with pytest.raises(UnreadableInput, match=says) as caught:
        sampled_file(path)

    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["GPU/timeline_01.json", "CPU/timeline_02_step_0.json"])
def test_recorded_timelines_are_read(name: str) -> None:
    """The timelines of others, of TensorFlow 1 on two machines."""
    path = golden("ikhlestov_timelines", name)

    found = sampled_file(path)

    assert "MatMul" in {node.op for node in found.graph.nodes}
    assert found.executions.duration_ns.min() > 0
