"""Models of Keras 3 on JAX run as without tfprobe, and each of their steps is counted once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tf.laboratory import (
    Laboratory,
    Outcome,
    as_bare,
    counted,
    counts,
    tfprobe_json,
)

JOB = str(Path(__file__).parent / "jobs" / "models.py")


@pytest.fixture(scope="module")
def outcomes(laboratory: Laboratory) -> dict[str, Outcome]:
    """The outcomes of the job: bare, with the default budget, and with every step traced."""
    return laboratory.outcomes(JOB)


@pytest.mark.parametrize("way", ["budget", "every"])
def test_a_job_prints_and_ends_as_without_a_recording(outcomes, way) -> None:
    """Losses, weights bit for bit, saved and pickled models, and an error while tracing."""
    as_bare(outcomes["bare"], outcomes[way])
    assert outcomes[way].stderr == outcomes["bare"].stderr


@pytest.mark.parametrize("way", ["budget", "every"])
def test_every_step_is_counted_once(outcomes, way) -> None:
    """Functions of jax.jit below a step of Keras are no steps."""
    known = counted(outcomes[way])

    found = counts(outcomes[way])

    assert {name: count for name, count in found.items() if name in known} == known
    assert [name for name in found if name.startswith(("jit ", "compiled ", "eager "))] == [
        "jit <lambda>"
    ]


def test_the_agent_has_no_error(outcomes) -> None:
    """It says so in its log and in an event."""
    assert "error in" not in outcomes["every"].agent_log
    errors = [event for event in outcomes["every"].events if event["event"] in ("error", "aside")]
    assert errors == []


def test_the_process_says_which_frameworks_it_uses(outcomes) -> None:
    """Keras and JAX: nothing of TensorFlow is loaded for them."""
    (process,) = [
        json.loads(path.read_text()) for path in outcomes["budget"].run.glob("*/*/process.json")
    ]

    assert set(process["frameworks"]) == {"jax", "keras"}
    assert process["tensorflow"] is None
    assert process["devices"][0]["type"] == "CPU"


def test_the_optimizers_count_of_steps_is_noted(outcomes) -> None:
    """Read as a fit begins and ends; with steps_per_execution a call makes several.

    Nobody waits for the last step to read it: these two fits do so themselves.
    """
    loops = {f"{loop['kind']} {loop['name']}": loop for loop in outcomes["budget"].loops}

    assert loops["fit m_fit"]["optimizer_steps"] == loops["fit m_fit"]["count"]
    assert loops["fit m_several"]["optimizer_steps"] == 2 * 7
    assert loops["fit m_several"]["steps_per_execution"] == 3


def test_a_partial_batch_is_a_retrace(outcomes) -> None:
    """The last batch of an epoch has 4 rows, the others 16."""
    loops = {f"{loop['kind']} {loop['name']}": loop for loop in outcomes["budget"].loops}

    (number,) = [
        event["work"]
        for event in outcomes["budget"].events
        if event["event"] == "work" and (event["kind"], event["name"]) == ("fit", "m_fit")
    ]
    compiled = [
        event["changed"] and [change["argument"] for change in event["changed"]]
        for event in outcomes["budget"].events
        if event["event"] == "compile" and event["work"] == number
    ]

    assert loops["fit m_fit"]["retraces"] == 1
    assert loops["fit m_jit"]["retraces"] == 0
    assert compiled == [None, ["data[0]", "data[1]"]]


def test_traced_steps_show_the_products_of_the_step(outcomes) -> None:
    """A capture holds its own step, of fit and of train_on_batch alike."""
    for loop in ("m_fit", "train_on_batch m_batches"):
        document = tfprobe_json("op", str(outcomes["every"].run), "--loop", loop)

        assert {"dot", "fusion"} & {op["name"] for op in document["ops"]}, loop


def test_what_a_model_does_besides_steps_is_an_activity(outcomes) -> None:
    """The same methods of Keras as on TensorFlow."""
    names = {
        (line["activity"], line["name"])
        for path in outcomes["budget"].run.glob("*/*/activities.jsonl")
        for line in map(json.loads, path.read_text().splitlines())
    }

    assert {
        ("build", "Sequential.build"),
        ("callbacks", "CallbackList.on_epoch_end"),
        ("compile", "Model.compile"),
        ("evaluate", "m_evaluate.evaluate"),
        ("predict", "m_predict.predict"),
        ("save", "Model.save"),
        ("train", "m_fit.fit"),
    } <= names
