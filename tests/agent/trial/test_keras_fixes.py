"""Fixes of Keras programs, on models that only say how they were called."""

from __future__ import annotations

import pytest

TRAINER = """
class Trainer:
    dynamic = False
    def compile(self, optimizer="sgd", loss=None, run_eagerly=False, steps_per_execution=1):
        self.compiled = run_eagerly, steps_per_execution
"""
OLD_MODEL = """
class Model:
    def compile(self, optimizer="sgd", loss=None, **kwargs):
        self.compiled = kwargs
"""


@pytest.fixture
def trainer(make_module):
    """Keras 3's module of the class with compile."""
    return make_module("keras.src.trainers.trainer", TRAINER)


def test_run_eagerly_is_switched_off_by_keyword_and_by_position(trainer, fix):
    """Nothing else of the call changes."""
    note = fix("run_eagerly_off", trainer)
    model = trainer.Trainer()

    model.compile(run_eagerly=True)
    by_keyword = model.compiled
    model.compile("adam", "mse", True, 4)

    assert (by_keyword, model.compiled) == ((False, 1), (False, 4))
    assert (note.times, note.reasons) == (2, {})


def test_a_compiled_model_is_left_alone(trainer, fix):
    """It is not applied, and the reason is said."""
    note = fix("run_eagerly_off", trainer)
    model = trainer.Trainer()

    model.compile()

    assert model.compiled == (False, 1)
    assert (note.times, note.reasons) == (0, {"compiled without run_eagerly": 1})


def test_a_dynamic_model_goes_on_running_eagerly(trainer, fix):
    """Its author says that it cannot be compiled."""
    note = fix("run_eagerly_off", trainer)
    model = trainer.Trainer()
    model.dynamic = True

    model.compile(run_eagerly=True)

    assert model.compiled == (True, 1)
    assert note.times == 0


def test_the_switch_of_tensorflow_stays_off_for_the_job(make_module, fix):
    """What TensorFlow itself switches on stays on."""
    switch = make_module(
        "tensorflow.python.eager.polymorphic_function.eager_function_run",
        "eagerly = []\ndef run_functions_eagerly(run_eagerly):\n    eagerly.append(run_eagerly)\n"
        "def inside():\n    run_functions_eagerly(True)\n",
    )
    note = fix("run_eagerly_off", switch)

    switch.run_functions_eagerly(True)
    switch.run_functions_eagerly(False)
    switch.inside()

    assert switch.eagerly == [False, False, True]
    assert note.times == 1


def test_several_batches_are_one_step_of_as_many_units(trainer, fix, counted):
    """The unit stays one batch."""
    note = fix("steps_per_execution", trainer, 16)
    model = trainer.Trainer()

    model.compile()

    assert model.compiled == (False, 16)
    assert note.times == 1
    assert counted["evaluate", None] == 16
    assert counted["fit", None]() == 16


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"steps_per_execution": 8}, "the program has set steps_per_execution"),
        ({"steps_per_execution": "auto"}, "the program has set steps_per_execution"),
        ({"run_eagerly": True}, "compiled with run_eagerly"),
    ],
)
def test_a_choice_of_the_program_stays(trainer, fix, counted, given, why):
    """The fix says why it does not apply."""
    note = fix("steps_per_execution", trainer, 16)
    model = trainer.Trainer()

    model.compile(**given)

    assert model.compiled[1] == given.get("steps_per_execution", 1)
    assert (note.times, note.reasons, counted) == (0, {why: 1}, {})


def test_an_old_keras_has_no_steps_per_execution(make_module, fix):
    """It would refuse the argument."""
    module = make_module("tensorflow.python.keras.engine.training", OLD_MODEL)
    note = fix("steps_per_execution", module, 16)
    model = module.Model()

    model.compile()

    assert model.compiled == {}
    assert note.reasons == {"this Keras has no steps_per_execution": 1}
