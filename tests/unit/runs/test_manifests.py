"""Manifests are read whole or refused with a reason."""

from __future__ import annotations

import contextlib
import json
import random

import pytest

from tests.support.rundir import WrittenProcess, write_run
from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.manifests import RankRecord, read_config, read_process, read_run


def test_run_json_is_read(tmp_path):
    """The launcher's facts come back as they were written."""
    root = write_run(tmp_path / "r1")

    run = read_run(root / "run.json")

    assert (run.id, run.user, run.pid) == ("r1", "ada", 4711)
    assert run.command == ("python", "train.py", "--epochs", "3")
    assert run.config.budget_ratio == 0.01


def test_config_json_is_read(tmp_path):
    """Explicit steps are inclusive ranges."""
    path = tmp_path / "config.json"
    document = {"schema": "tfprobe.config/1", "steps": [[10, 20], [50, 50]], "every": None}
    path.write_text(json.dumps({**document, "budget": 0.01, "trace_level": "off"}))

    config = read_config(path)

    assert (config.steps, config.trace_level) == (((10, 20), (50, 50)), "off")


def test_process_json_is_read(tmp_path):
    """Versions, rank and devices of a process come back typed."""
    rank = {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}
    root = write_run(tmp_path / "r1", [WrittenProcess(manifest={"rank": rank})])
    (path,) = root.glob("*/*/process.json")

    process = read_process(path)

    assert process.rank == RankRecord("TF_CONFIG", 1, 2, "worker")
    assert process.tensorflow == "2.21.0"
    assert isinstance(process.devices, Missing)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"schema": "tfprobe.run/2"}',
        '{"schema": "tfprobe.run/1"}',
        "[" * 9999,
    ],
)
def test_what_is_no_run_json_is_refused(tmp_path, content):
    """A half-written or foreign run.json is an error with the file's name."""
    path = tmp_path / "run.json"
    path.write_text(content)

    with pytest.raises(UnreadableInput, match=r"run\.json"):
        read_run(path)


def test_any_field_of_another_type_is_read_or_refused(tmp_path):
    """Whatever is in a field, a reader answers or says what is wrong."""
    root = write_run(tmp_path / "r1", [WrittenProcess()])
    (path,) = root.glob("*/*/process.json")
    document = json.loads(path.read_text())
    rng = random.Random(3)
    for key in document:
        for value in (None, 1, -1, True, "x", [], {}, [1, {}], {"a": 1}, rng.random()):
            path.write_text(json.dumps({**document, key: value}))

            with contextlib.suppress(UnreadableInput):
                read_process(path)
