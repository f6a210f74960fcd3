"""`tfprobe memory` answers from a recorded run, and says so where nothing tells of memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import CPU, Node, Op, graph_def, run_metadata
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main
from tfprobe.formats.schema import message_class

GRAPH = "00f1ce"
NAME = "000002-session_run-0.run_metadata.pb"


def write(folder: Path, capture: bytes, **more: Any) -> Path:
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        captures={NAME: capture},
        events=[{"event": "sample", "work": 0, "step": 2, "capture": NAME, "graph": GRAPH}],
        **more,
    )
    return write_run(folder / "runs" / "r1", [process])


def records() -> bytes:
    """A step in which `dense/MatMul` takes 4096 bytes, and gives 1024 of them back."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    message.ParseFromString(run_metadata({CPU: [Node("dense/MatMul", 0, 10)]}))
    node = message.step_stats.dev_stats[0].node_stats[0]
    for after_us, size in ((1, 3072), (2, 1024), (3, -1024)):
        node.memory[0].allocation_records.add(
            alloc_micros=node.all_start_micros + after_us, alloc_bytes=size
        )
    return bytes(message.SerializeToString())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path, records())


def document(capsys, *words: str) -> Any:  # Any: a JSON document
    assert main(["memory", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_peak_and_its_holders_are_told(run, capsys) -> None:
    """4 KiB, of which the op gave a quarter back before it was done."""
    found = document(capsys, str(run))

    assert (found["schema"], found["run"]) == ("tfprobe.memory/1", "r1")
    [allocator] = found["allocators"]
    assert (allocator["is_estimate"], allocator["peak"]["bytes"]) == (False, 4096)
    assert allocator["peak"]["by_role"] == {"activations": 3072, "temporary": 1024}
    assert found["hosts"] == []
    assert "no process" in found["missing"]["hosts"]


def test_without_records_sizes_of_outputs_give_an_estimate(tmp_path, capsys) -> None:
    """The graph tells shapes and types; it is called an estimate."""
    graph = message_class("tfprobe.graph.GraphDef")()
    graph.MergeFromString(graph_def([Op("a", "MatMul", shapes=[(10, 10)])]))
    graph.node[0].attr["T"].type = 1
    graphs = {f"{GRAPH}.graph.pb": bytes(graph.SerializeToString())}
    run = write(tmp_path, run_metadata({CPU: [Node("a", 0, 5)]}), graphs=graphs)

    [allocator] = document(capsys, str(run))["allocators"]

    assert (allocator["is_estimate"], allocator["peak"]["bytes"]) == (True, 400)


def test_the_text_is_for_people(run, capsys, monkeypatch) -> None:
    """It fits into 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    status = main(["memory", str(run)])

    text = capsys.readouterr().out
    assert (status, "peak 4.00 KiB above its level before" in text) == (0, True)
    assert max(map(len, text.splitlines())) <= 80


def test_a_run_that_tells_nothing_of_memory_says_so(tmp_path, capsys) -> None:
    """The status is 1, as wherever a question has no answer in a run."""
    run = write(tmp_path, run_metadata({CPU: [Node("a", 0, 5)]}))

    status = main(["memory", str(run)])

    assert status == 1
    assert "has no memory data" in capsys.readouterr().err


def test_a_run_without_sampled_steps_says_so(tmp_path, capsys) -> None:
    """Nothing of its devices is known."""
    run = write_run(tmp_path / "runs" / "r1", [WrittenProcess()])

    assert main(["memory", str(run)]) == 1


def test_an_unknown_work_is_no_answer(run, capsys) -> None:
    """And the works there are, are named."""
    assert main(["memory", str(run), "--loop", "nonsense"]) == 1
    assert "session_run" in capsys.readouterr().err
