"""The four tiers of real jobs: what they did sums to their time, and summary.json is valid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.models_profiler import check_summary
from tests.tf.laboratory import Laboratory, Outcome, tfprobe_json
from tests.tf.requirements import need_tensorflow
from tfprobe.cli.main import main

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = {
    # script: kind of its steps, first TensorFlow
    "custom_loop.py": ("function", (2, 0)),
    "keras_fit.py": ("fit", (1, 14)),
    "mnist_softmax_session.py": ("session_run", (1, 14)),
}


@pytest.fixture(params=SCRIPTS, scope="module")
def recorded(request: pytest.FixtureRequest, laboratory: Laboratory) -> tuple[str, Outcome]:
    """Each example with some steps traced, and the kind of its steps."""
    kind, first = SCRIPTS[request.param]
    need_tensorflow(laboratory, first)
    arguments = (str(EXAMPLES / request.param), "--steps", "30")
    return kind, laboratory.start(*arguments, record=["--every", "10"]).outcome()


def test_what_a_job_did_sums_to_its_time(recorded: tuple[str, Outcome]) -> None:
    """Its import and its steps are there, and no moment of its thread counts twice."""
    kind, outcome = recorded

    document = tfprobe_json("tiers", str(outcome.run))

    (process,) = document["application"]
    kinds = {each["kind"] for each in process["activities"]}
    whole_us = sum(each["exclusive_us"] for each in process["activities"])
    whole_us += process["elsewhere_us"]
    assert {"import", kind} <= kinds
    # More only where another thread did something meanwhile.
    assert whole_us == pytest.approx(process["wall_us"], rel=0.02)
    assert document["framework"]["types"]
    assert "no driver call" in document["runtime"]["missing"]
    (machine,) = document["hardware"]["processes"]
    assert machine["samples"] >= 1
    assert 0 < machine["resident_bytes"]["mean"] <= machine["peak_resident_bytes"]


def test_the_summary_is_as_its_schema_says(recorded: tuple[str, Outcome], tmp_path: Path) -> None:
    """Written of a real job, it holds what the models profiler's manual promises, and no more."""
    kind, outcome = recorded

    status = main(["export", str(outcome.run), "--to", "models-profiler", "-f", str(tmp_path)])

    summary = json.loads((tmp_path / "summary.json").read_text())
    check_summary(summary)
    assert status == 0
    assert "import tensorflow" in summary["app_stats"]["0"]
    assert any(name.startswith(kind) for name in summary["app_stats"]["9"])
    assert summary["op_stats"]
    assert summary["runtime_stats"]["missing"]
    assert "## Activities" in (tmp_path / "summary.md").read_text()
