"""What counts as a unit, where fixes change the kind or the size of a step."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.support.agent import load

TRIAL = {"unit": None, "weights_at": 1000, "warm_units": 1000, "seconds": 1000, "units": 100000}


@pytest.fixture
def counter(monkeypatch):
    """The counter of a process, which writes nothing."""
    units = load("trial.units")
    written: list[dict] = []
    process_dir = SimpleNamespace(append=lambda _name, *lines: written.extend(lines))
    monkeypatch.setattr(units, "current_recorder", lambda: SimpleNamespace(process_dir=process_dir))
    monkeypatch.setattr(units, "COUNTER", units.Counter())
    units.COUNTER.written = written
    return units.COUNTER


def _count(counter, *steps, unit=None):
    """Count steps of loops by kind and name; give the units done."""
    unit = unit and dict(zip(("kind", "name"), unit, strict=True))
    counter.begin({**TRIAL, "unit": unit})
    for kind, name in steps:
        counter.step(SimpleNamespace(kind=kind, name=name))
    return counter.done


FIT, PREDICT, EVALUATE = ("fit", "model"), ("predict", "model"), ("evaluate", "model")


def test_a_step_of_the_unit_counts_one(counter):
    """Other loops count nothing, of the same kind neither."""
    assert _count(counter, FIT, PREDICT, ("fit", "other"), FIT, unit=FIT) == 2


def test_a_step_of_another_size_counts_as_many(counter):
    """And what only has another size counts no more than before."""
    units = load("trial.units")
    units.counts_as("fit", None, 4)
    units.counts_as("predict", None, 4)

    assert _count(counter, FIT, PREDICT, FIT, unit=FIT) == 8


def test_a_step_that_stands_for_one_of_the_unit_counts(counter):
    """Of the model that is counted."""
    load("trial.units").counts_as("predict_on_batch", None, 1, "predict")
    direct, other = ("predict_on_batch", "model"), ("predict_on_batch", "other")

    assert _count(counter, PREDICT, direct, other, direct, unit=PREDICT) == 3


def test_a_step_that_stands_for_another_kind_does_not_count(counter):
    """A prediction is no step of training."""
    load("trial.units").counts_as("predict_on_batch", None, 1, "predict")

    assert _count(counter, FIT, ("predict_on_batch", "model"), unit=FIT) == 1


def test_a_compiled_step_goes_on_where_the_eager_one_was(counter):
    """Whatever its function is called."""
    load("trial.units").counts_as("function", "train_step", 1, "eager")
    compiled, other = ("function", "train_step"), ("function", "preprocess")

    assert _count(counter, ("eager", "SGD"), compiled, other, compiled, unit=("eager", "SGD")) == 3


def test_without_a_unit_training_is_counted_from_its_first_step(counter):
    """However many steps of another kind there were."""
    done = _count(counter, EVALUATE, EVALUATE, EVALUATE, FIT, FIT)

    assert (counter.unit, done) == (FIT, 2)
    assert [line["unit"]["kind"] for line in counter.written if "unit" in line] == [
        "evaluate",
        "fit",
    ]


def test_training_is_counted_where_the_job_evaluates_for_longer_than_the_warm_up(counter):
    """Many programs evaluate once before they train; the warm-up begins anew with training."""
    counter.begin({**TRIAL, "warm_units": 2})
    for kind, name in (*[("forward", "GPT")] * 5, ("optimizer_step", "AdamW")):
        counter.step(SimpleNamespace(kind=kind, name=name))

    assert (counter.unit, counter.done) == (("optimizer_step", "AdamW"), 1)
    assert counter.warm_ns is None


@pytest.mark.parametrize(("has_optimizer", "stopped"), [(True, []), (False, ["seconds"])])
def test_a_job_with_an_optimizer_is_not_measured_by_its_evaluation(
    counter, monkeypatch, has_optimizer, stopped
):
    """It will train; a job without one may do nothing but evaluate."""
    ended: list[str] = []
    monkeypatch.setattr(counter, "_stop", lambda why, _now_ns: ended.append(why))
    monkeypatch.setattr(load("trial.frameworks.torch"), "has_optimizer", lambda: has_optimizer)
    counter.begin({**TRIAL, "warm_units": 2, "seconds": 10})
    now = iter((0, 1, 20))
    monkeypatch.setattr(
        load("trial.units"), "UNPATCHED", SimpleNamespace(monotonic_ns=lambda: next(now) * 10**9)
    )
    monkeypatch.setattr(counter, "_mark", lambda _now_ns: None)
    for _ in range(3):
        counter.step(SimpleNamespace(kind="forward", name="GPT"))

    assert ended == stopped


def test_once_warm_another_loop_of_training_changes_nothing(counter):
    """Only what trains takes the place of what does not."""
    counter.begin({**TRIAL, "warm_units": 2})
    for kind, name in (FIT, FIT, ("fit", "other"), ("fit", "other"), ("fit", "other"), FIT):
        counter.step(SimpleNamespace(kind=kind, name=name))

    assert (counter.unit, counter.done) == (FIT, 3)


def test_without_a_unit_the_loop_with_most_steps_is_counted(counter):
    """Among those of a kind that may train, with all of its steps."""
    init, train = ("session_run", "init"), ("session_run", "train")

    assert _count(counter, init, train, train, init, train) == 3
    assert counter.unit == train


def test_a_step_that_no_loop_has_counted_can_be_added(counter):
    """It does not get lost when the unit is chosen after it."""
    load("trial.units").add(1)

    assert _count(counter, ("function", "step"), ("function", "step")) == 3
