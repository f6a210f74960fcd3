"""Fixes of Keras programs, on models that only say how they were called."""

from __future__ import annotations

from types import SimpleNamespace

import numpy
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
    assert counted["evaluate", None] == (16, None)
    assert counted["fit", None][0]() == 16


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


CALLBACKS = """
class Callback:
    def on_train_batch_end(self, batch, logs=None):
        self.on_batch_end(batch, logs)
    def on_batch_end(self, batch, logs=None):
        pass
    def on_epoch_end(self, epoch, logs=None):
        pass
class CallbackList:
    def __init__(self, callbacks):
        self.callbacks = callbacks
    def on_train_batch_end(self, batch):
        for callback in self.callbacks:
            callback.on_train_batch_end(batch)
"""


@pytest.fixture
def callbacks(make_module):
    """Keras' module of callbacks."""
    return make_module("keras.src.callbacks", CALLBACKS)


def _run(callbacks, callback, batches):
    for _ in range(2):  # one list for each call of fit
        callback_list = callbacks.CallbackList([callback])
    for batch in range(batches):
        callback_list.on_train_batch_end(batch)


@pytest.mark.parametrize("method", ["on_train_batch_end", "on_batch_end"])
def test_a_callback_of_the_job_is_called_at_each_nth_batch(callbacks, fix, method):
    """Whichever of the two names it defines."""
    note = fix("callbacks_every", callbacks, 3)
    batches = []

    def note_batch(_self, batch, _logs=None):
        batches.append(batch)

    own = type("Own", (callbacks.Callback,), {method: note_batch})

    _run(callbacks, own(), 9)

    assert batches == [2, 5, 8]
    assert note.times == 6


def test_a_callback_that_steers_the_training_is_called_each_time(callbacks, fix):
    """It may stop at a batch or set the learning rate."""
    note = fix("callbacks_every", callbacks, 3)
    batches = []

    class Stopping(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            batches.append(batch)
            self.stop()

        def stop(self):
            self.stop_training = True

    _run(callbacks, Stopping(), 4)

    assert batches == [0, 1, 2, 3]
    assert (note.times, note.reasons) == (0, {"Stopping steers the training": 1})


def test_callbacks_of_keras_are_left_alone(callbacks, fix):
    """They cost little, and some steer the training."""
    note = fix("callbacks_every", callbacks, 3)
    callback = callbacks.Callback()

    _run(callbacks, callback, 4)

    assert (vars(callback), note.times, note.reasons) == ({}, 0, {})


PREDICTING = """
class TensorFlowTrainer:
    def predict(self, x, batch_size=None, verbose="auto", steps=None, callbacks=None):
        return "predict"
    def predict_on_batch(self, x):
        return "predict_on_batch"
"""


def test_one_batch_in_memory_is_predicted_directly(make_module, fix, counted):
    """It counts as a step of predict."""
    module = make_module("keras.src.backend.tensorflow.trainer", PREDICTING)
    note = fix("predict_direct", module)
    model = module.TensorFlowTrainer()
    rows = numpy.zeros((32, 4))

    results = [
        model.predict(rows),
        model.predict(x=rows[:1], verbose=0),
        model.predict(numpy.zeros((64, 4)), 64),
        model.predict(numpy.zeros((33, 4))),
        model.predict(rows, callbacks=[print]),
        model.predict(iter(rows)),
    ]

    assert results == ["predict_on_batch"] * 3 + ["predict"] * 3
    assert (note.times, counted) == (3, {("predict_on_batch", None): (1, "predict")})
    assert note.reasons == {
        "more than one batch": 1,
        "with callbacks": 1,
        "the data is no array": 1,
    }


COMPILING = """
class Trainer:
    def compile(self, optimizer="sgd", run_eagerly=False, jit_compile="auto"):
        self.compiled = jit_compile
"""


def test_several_steps_per_execution_need_several_batches(make_module, fix):
    """A predict function of Keras 2 that was compiled so would find no second one."""
    module = make_module(
        "keras.src.engine.training", PREDICTING.replace("TensorFlowTrainer", "Model")
    )
    note = fix("predict_direct", module)
    model = module.Model()
    model._steps_per_execution = SimpleNamespace(numpy=lambda: numpy.int64(4))

    assert model.predict(numpy.zeros((1, 4))) == "predict"
    assert note.reasons == {"several steps per execution": 1}


def test_xla_is_asked_for_where_the_program_says_nothing(make_module, fix):
    """A choice of the program stays."""
    module = make_module("keras.src.trainers.trainer", COMPILING)
    note = fix("jit_compile", module)
    model = module.Trainer()

    model.compile()
    by_default = model.compiled
    model.compile(jit_compile=False)

    assert (by_default, model.compiled) == (True, False)
    assert (note.times, note.reasons) == (1, {"the program has set jit_compile": 1})
