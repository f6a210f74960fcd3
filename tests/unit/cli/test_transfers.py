"""`tfprobe transfers` answers from a recorded run, and says so where nothing moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import CPU, GPU, Node, run_metadata
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.cli.main import main

COPY = "edge_22_dense/MatMul"


def write(folder: Path, capture: bytes) -> Path:
    name = "000002-session_run-0.run_metadata.pb"
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        captures={name: capture},
        events=[{"event": "sample", "work": 0, "step": 2, "capture": name}],
    )
    return write_run(folder / "runs" / "r1", [process])


@pytest.fixture
def gpu_run(tmp_path: Path) -> Path:
    """A step with one kernel of 100 µs, and a copy of 1 KiB of which half is behind it."""
    return write(
        tmp_path,
        run_metadata(
            {
                CPU: [Node("dense/MatMul", 0, 5)],
                f"{GPU}/stream:all": [Node("dense/MatMul", 0, 100)],
                f"{GPU}/memcpy": [Node(f"{COPY}:MEMCPYDtoH", 60, 80, "num_bytes: 1024")],
            }
        ),
    )


def document(capsys, *words: str) -> Any:  # Any: a JSON document
    assert main(["transfers", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_copies_are_told_by_direction_and_op(gpu_run, capsys) -> None:
    """Bytes, rate, and what a kernel hides."""
    found = document(capsys, str(gpu_run))

    assert (found["schema"], found["run"]) == ("tfprobe.transfers/1", "r1")
    [flow] = found["transfers"]["directions"]
    assert (flow["direction"], flow["bytes"], flow["busy_us"]) == ("device_to_host", 1024, 80)
    assert (flow["hidden_us"], flow["exposed_us"]) == (40, 40)
    assert [each["name"] for each in found["transfers"]["causes"]] == ["dense/MatMul"]
    assert "collective" in found["missing"]["collectives"]


def test_copies_are_told_by_layer(gpu_run, capsys) -> None:
    """--by layer counts them for the scope of their op."""
    found = document(capsys, str(gpu_run), "--by", "layer")

    assert [each["name"] for each in found["transfers"]["causes"]] == ["dense"]


def test_the_text_is_for_people(gpu_run, capsys, monkeypatch) -> None:
    """It fits into 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    status = main(["transfers", str(gpu_run)])

    text = capsys.readouterr().out
    assert (status, "device to host" in text, "Kernels hide 50.0 %" in text) == (0, True, True)
    assert max(map(len, text.splitlines())) <= 80


def test_a_job_without_an_accelerator_is_told_so(tmp_path, capsys) -> None:
    """The status is 1, as wherever a question has no answer in a run."""
    run = write(tmp_path, run_metadata({CPU: [Node("a", 0, 5)]}))

    status = main(["transfers", str(run)])

    said = capsys.readouterr()
    assert (status, said.out) == (1, "")
    assert "no accelerator in this run, so nothing moved over the bus" in said.err


def test_a_file_from_elsewhere_is_a_run_of_one_step(tmp_path, capsys) -> None:
    """A RunMetadata by itself tells what its step moved."""
    file = tmp_path / "step.pb"
    copies = [Node("MEMCPYHtoD", 0, 2, "Conv2D:Conv2D num_bytes: 112 destination: 0 async: false")]
    file.write_bytes(run_metadata({CPU: [Node("a", 0, 5)], f"{GPU}/memcpy": copies}))

    found = document(capsys, str(file))

    assert found["transfers"]["directions"][0]["bytes"] == 112


@pytest.mark.parametrize("words", [["--loop", "x"], ["--rank", "0"]])
def test_a_file_has_neither_works_nor_ranks(tmp_path, capsys, words) -> None:
    """Such options are mistakes there."""
    file = tmp_path / "step.pb"
    file.write_bytes(run_metadata({CPU: [Node("a", 0, 5)]}))

    assert main(["transfers", str(file), *words]) == 2
