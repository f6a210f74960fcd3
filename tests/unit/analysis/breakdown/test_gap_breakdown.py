"""Between steps, time belongs to the call it was spent in, by what that call is known to do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.profiles import Step, loop, op, profile, traced_step_parts
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.breakdown.cycles import (
    StepParts,
    parts_by_loop,
    run_breakdown,
)
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.capture_tables import Place

TF = "/env/lib/python3.11/site-packages/tensorflow/python"
KERAS = "/env/lib/python3.11/site-packages/keras/src"


def call(function: str, self_us: int, parent: int | None = 0, **more) -> Call:
    facts = {"file": "/home/ada/train.py", "line": 5, "called_line": 9, "is_generator": False}
    return Call(parent, function, count=1, self_ns=self_us * 1000, **{**facts, **more})


LOOP = call("main", 10, None)


def gap(*calls: Call, cost_us: int = 0) -> Gap:
    total_ns = sum(each.self_ns for each in calls)
    return Gap(0, 0, 0, UNIX_NS + 100_000, total_ns, cost_us * 1000, False, calls)


def step(*calls: Call, cost_us: int = 0, rows=(), kind: str = "fit") -> StepParts:
    # Of so few steps nobody knows what is usual.
    found = profile(
        [Step(rows or [op("MatMul", 0, 100)])],
        loops=[loop([100] * 3, kind=kind)],
        gaps=(gap(*calls, cost_us=cost_us),),
    )
    (each,) = traced_step_parts(found)
    assert sum(each.parts.values()) == each.cycle_ns
    return each


@pytest.mark.parametrize(
    ("known", "part"),
    [
        (call("batches", 50, is_generator=True), Part.HOST_PREPROCESS),
        (call("__getitem__", 50), Part.HOST_PREPROCESS),
        (call("next_batch", 50), Part.HOST_PREPROCESS),
        (call("open", 50, file="/env/site-packages/PIL/Image.py"), Part.HOST_PREPROCESS),
        (call("__next__", 50, file=f"{TF}/data/ops/iterator_ops.py"), Part.INPUT_WAIT),
        (call("get", 50, file="/usr/lib/python3.11/queue.py"), Part.INPUT_WAIT),
        (call("constant", 50, file=f"{TF}/framework/constant_op.py"), Part.FEED),
        (call("on_train_batch_end", 50), Part.CALLBACKS),
        (call("after_run", 50), Part.CALLBACKS),
        (call("save", 50, file=f"{TF}/checkpoint/checkpoint.py"), Part.CHECKPOINTS),
        (call("save_weights", 50, file=f"{KERAS}/models/model.py"), Part.CHECKPOINTS),
        (call("scalar", 50, file=f"{TF}/ops/summary_ops_v2.py"), Part.SUMMARIES),
        (call("func_graph_from_py_func", 50, file=f"{TF}/framework/func_graph.py"), Part.COMPILE),
        (call("numpy", 50, file=f"{TF}/framework/ops.py"), Part.FETCH),
        (call("time.sleep", 50, file="", line=0), Part.IDLE),
    ],
)
def test_a_call_is_known_by_name_and_file(known: Call, part: Part):
    """Input made by Python, callbacks, saving and fetching are told apart."""
    found = step(LOOP, known)

    assert found.parts[part] >= 50_000
    assert found.between_ns == 60_000


def test_unknown_calls_belong_to_the_known_call_around_them():
    """A sleep in a callback is the callback's."""
    found = step(LOOP, call("on_train_batch_end", 1), call("time.sleep", 500, parent=1, file=""))

    assert found.parts[Part.CALLBACKS] == 501_000


def test_the_innermost_known_call_counts():
    """A checkpoint that a callback writes is a checkpoint."""
    saving = call("save", 80, parent=1, file=f"{TF}/checkpoint/checkpoint.py")

    found = step(LOOP, call("on_epoch_end", 20), saving)

    assert (found.parts[Part.CALLBACKS], found.parts[Part.CHECKPOINTS]) == (20_000, 80_000)


def test_a_callback_is_named_by_the_line_that_the_job_wrote():
    """Keras calls a list of callbacks, which calls the job's own: that one is to be looked at."""
    in_keras = call("on_train_batch_end", 5, file=f"{KERAS}/callbacks/callback_list.py")
    own = call("on_train_batch_end", 5, parent=1, line=97)

    found = step(
        call("fit", 5, None, file=f"{KERAS}/backend/tensorflow/trainer.py"),
        in_keras,
        own,
        call("time.sleep", 900, parent=2, file="", line=0, called_line=99),
    )

    (dearest, *_) = [each for each in found.causes if each.part is Part.CALLBACKS]
    assert (dearest.what, dearest.file, dearest.line) == (
        "on_train_batch_end",
        "/home/ada/train.py",
        97,
    )
    assert dearest.duration_ns == 905_000


def test_idle_time_comes_with_the_line_that_spent_it():
    """What the Python thread did is named by the call the loop made and the loop's line."""
    found = step(LOOP, call("compute_metric", 5, called_line=41), call("helper", 400, parent=1))

    idle = [each for each in found.causes if each.part is Part.IDLE]
    assert (idle[0].what, idle[0].file, idle[0].line) == (
        "compute_metric",
        "/home/ada/train.py",
        41,
    )
    assert idle[0].duration_ns == 405_000


def test_what_a_builtin_calls_is_told_with_the_line_of_the_builtin():
    """`next(batches)` has a line, though next itself is written in C."""
    found = step(
        LOOP,
        call("builtins.next", 1, file="", line=0, called_line=31),
        call("__next__", 700, parent=1, file=f"{TF}/data/ops/iterator_ops.py", called_line=0),
    )

    (cause,) = [each for each in found.causes if each.part is Part.INPUT_WAIT]
    assert (cause.what, cause.file, cause.line) == ("__next__", "/home/ada/train.py", 31)


def test_what_a_library_does_for_the_job_is_told_with_the_line_of_the_job():
    """`model.test_on_batch(...)` converts some calls further in: one can change the first."""
    found = step(
        LOOP,
        call("error_handler", 1, file=f"{TF}/util/traceback_utils.py", called_line=18),
        call("convert", 1, parent=1, file=f"{KERAS}/core.py", called_line=150),
        call("constant", 90, parent=2, file=f"{TF}/framework/constant_op.py", called_line=757),
    )

    (cause,) = [each for each in found.causes if each.part is Part.FEED]
    assert (cause.what, cause.file, cause.line) == ("constant", "/home/ada/train.py", 18)


def test_a_library_that_no_line_of_the_job_called_is_told_by_its_own():
    """Of Keras' own loop nothing but its lines is seen."""
    keras = f"{KERAS}/trainer.py"
    found = step(
        call("fit", 5, None, file=keras, called_line=400),
        call("__next__", 90, file=f"{TF}/data/ops/iterator_ops.py", called_line=371),
    )

    (cause,) = [each for each in found.causes if each.part is Part.INPUT_WAIT]
    assert (cause.what, cause.file, cause.line) == ("__next__", keras, 371)


@pytest.mark.parametrize(("called_line", "line"), [(16, 16), (0, 1)])
def test_the_code_around_a_step_is_told_by_the_line_of_the_step(called_line: int, line: int):
    """A script begins in line 1, where nobody finds anything; older recordings know no other."""
    found = step(call("<module>", 300, None, line=1, called_line=called_line))

    idle = [each for each in found.causes if each.what == "<module> itself"]
    assert [(each.file, each.line) for each in idle] == [("/home/ada/train.py", line)]


def test_reading_a_value_waits_where_there_is_a_device():
    """With an accelerator, `.numpy()` waits for the kernels before it."""
    row = op("MatMul", 0, 100, Place.ACCELERATOR)._replace(device="/device:GPU:0")

    found = step(LOOP, call("numpy", 70, file=f"{TF}/framework/ops.py"), rows=[row])

    assert found.parts[Part.SYNC_WAIT] == 70_000


def test_what_watching_cost_is_taken_out():
    """The time the agent took to watch is not the job's."""
    found = step(call("main", 100, None), call("f", 100), cost_us=60)
    with_tiny_calls = step(call("main", 100, None), call("f", 1), call("g", 1), cost_us=60)

    assert found.between_ns == 140_000
    assert with_tiny_calls.between_ns == 42_000


@pytest.mark.parametrize(("executed", "is_known"), [(1, False), (2, True)])
def test_what_follows_the_last_step_leads_to_no_step(executed: int, is_known: bool):
    """The end of the program is not time between steps; a watch that ended early is."""
    last = replace(gap(LOOP), cut=True)
    loops = [loop([100] * executed)]

    (found,) = traced_step_parts(profile([Step([op("MatMul", 0, 100)])], loops=loops, gaps=(last,)))

    assert (found.between_ns == 10_000) is is_known


def test_late_kernels_hide_the_time_after_the_step():
    """While kernels still run, Python is already on its way: that time is not spent twice."""
    row = op("MatMul", 0, 150, Place.ACCELERATOR)._replace(device="/device:GPU:0")

    found = step(call("main", 80, None), rows=[row])

    assert (found.step_ns, found.between_ns, found.cycle_ns) == (150_000, 30_000, 180_000)


def test_a_work_weighs_its_steps_and_the_time_between():
    """A loop sampled as often as another counts by what all its steps took."""
    steps = [
        Step([op("MatMul", 0, 100)], duration_us=100, loop=0),
        Step([op("_Recv", 0, 100)], duration_us=100, loop=1),
    ]
    loops = [loop([900], index=0), loop([100], index=1)]

    found = run_breakdown(profile(steps, loops=loops))

    assert found.shares[Part.HOST_COMPUTE] == pytest.approx(0.9, abs=1e-5)


def test_causes_of_a_work_are_means_over_its_steps():
    """What happens after one of two watched steps is told at half its time."""
    steps = [Step([op("MatMul", 0, 100)]) for _ in range(3)]
    first = gap(LOOP, call("slow", 1000))
    gaps = (first, replace(gap(LOOP), step=1))

    (found,) = parts_by_loop(profile(steps, loops=[loop()], gaps=gaps))

    (cause,) = [each for each in found.causes if each.what == "slow"]
    assert cause.duration_ns == 500_000
    assert [isinstance(step.between_ns, int) for step in found.steps] == [True, True, False]
    assert found.cycle_ns == 100_000 + (1_010_000 + 10_000) / 2


def test_a_gap_that_is_far_longer_than_usual_is_no_part_of_the_mean_cycle():
    """The end of an epoch after one of three traced steps would look like a third of all time."""
    steps = [Step([op("MatMul", 0, 100)]) for _ in range(2)]
    end_of_epoch = replace(gap(LOOP, call("evaluate", 400_000)), step=1)
    gaps = (gap(LOOP, call("log", 50)), end_of_epoch)

    (found,) = parts_by_loop(profile(steps, loops=[loop([1_000_000] * 20)], gaps=gaps))

    assert [isinstance(step.between_ns, int) for step in found.steps] == [True, False]
    assert {cause.what for cause in found.causes} >= {"log"}
    assert "evaluate" not in {cause.what for cause in found.causes}


def test_a_pause_after_every_step_is_usual():
    """A checkpoint at each step makes all gaps long, and counts."""
    pause_ns = 400_000_000
    slow = loop([1_000_000] * 20)
    starts = np.arange(20, dtype=np.int64) * (pause_ns + 1_000_000)
    recent = replace(slow.recent, start_ns=starts, end_ns=starts + 1_000_000)
    found = run_breakdown(
        profile(
            [Step([op("MatMul", 0, 100)])],
            loops=[replace(slow, recent=recent)],
            gaps=(gap(LOOP, call("save", 400_000, file=f"{TF}/checkpoint/checkpoint.py")),),
        )
    )

    assert found.shares[Part.CHECKPOINTS] > 0.9


SUM = {"file": "", "line": 0}


@pytest.mark.parametrize(
    "calls",
    [
        # sum(x for x in ...), and list(x for x in ...), which makes no call of its own.
        (call("builtins.sum", 1, **SUM), call("<genexpr>", 90, parent=1, is_generator=True)),
        (replace(call("<genexpr>", 90, is_generator=True), count=11),),
        # A helper that goes through something of its own.
        (call("log", 1), call("items", 90, parent=1, is_generator=True)),
        # Keras' own loop over steps and epochs.
        (call("steps", 90, file=f"{KERAS}/engine/data_adapter.py", is_generator=True),),
        (call("_enumerate_iterator", 90, file=f"{KERAS}/trainers/epoch_iterator.py"),),
        (call("catch_stop_iteration", 90, file=f"{KERAS}/trainers/epoch_iterator.py"),),
        # The pipeline of a call of predict, made once.
        (
            call("get_data_handler", 1, file=f"{KERAS}/engine/data_adapter.py"),
            call("slice_inputs", 90, parent=1, file=f"{KERAS}/engine/data_adapter.py"),
        ),
        # Waiting for others.
        (
            call("join", 1, file="/usr/lib/python3.11/multiprocessing/pool.py"),
            call("get", 90, parent=1, file="/usr/lib/python3.11/queue.py"),
        ),
    ],
)
def test_what_the_next_step_does_not_take_is_no_input(calls: tuple[Call, ...]):
    """Not all generators make batches, and not all code of data adapters does."""
    found = step(LOOP, *calls)

    assert set(found.after) == {Part.IDLE}


@pytest.mark.parametrize(
    "calls",
    [
        (call("batches", 90, is_generator=True),),
        (call("builtins.next", 1, **SUM), call("<genexpr>", 90, parent=1, is_generator=True)),
        (
            call("__iter__", 1, file="/env/site-packages/tqdm/std.py", is_generator=True),
            call("batches", 90, parent=1, is_generator=True),
        ),
        (
            call("_enumerate_iterator", 1, file=f"{KERAS}/epoch_iterator.py", is_generator=True),
            call("batches", 90, parent=1, is_generator=True),
        ),
    ],
)
def test_a_generator_that_the_loop_takes_from_is_input(calls: tuple[Call, ...]):
    """Itself, by next, or through a progress bar or Keras' loop."""
    found = step(LOOP, *calls)

    assert found.after[Part.HOST_PREPROCESS] == 90_000


@pytest.mark.parametrize(
    "made",
    [
        call("<genexpr>", 90, parent=1, is_generator=True),
        call("get_batch", 90, parent=1),
        call("open", 90, parent=1, file="/env/site-packages/PIL/Image.py"),
        call("constant", 90, parent=1, file=f"{TF}/framework/constant_op.py"),
    ],
)
def test_what_a_callback_runs_is_its_own(made: Call):
    """A callback that draws a batch of pictures does not make the next step wait for input."""
    found = step(LOOP, call("on_train_batch_end", 1), made)

    assert found.parts[Part.CALLBACKS] == 91_000


def test_what_an_op_between_steps_converts_is_its_own():
    """`tf.norm(weights)` hands over nothing to the step; `tf.convert_to_tensor(batch)` does."""
    wrapped = call("error_handler", 1, file=f"{TF}/util/traceback_utils.py", called_line=20)
    converted = call("convert_to_tensor", 1, parent=2, file=f"{TF}/framework/ops.py")
    constant = call("constant", 90, parent=3, file=f"{TF}/framework/constant_op.py")
    norm = call("norm", 1, parent=1, file=f"{TF}/ops/linalg_ops.py")
    given = call("convert_to_tensor_v2", 1, parent=1, file=f"{TF}/framework/tensor_conversion.py")

    of_op = step(LOOP, wrapped, norm, converted, constant)
    of_batch = step(LOOP, wrapped, given, converted, constant)

    assert Part.FEED not in of_op.parts
    assert of_batch.parts[Part.FEED] >= 90_000


@pytest.mark.parametrize(
    "made",
    [
        call("wrapper", 1, parent=1, file=f"{TF}/ops/weak_tensor_ops.py"),
        call("zeros", 1, parent=1, file=f"{TF}/ops/array_ops.py"),
    ],
    ids=["tf.constant", "tf.zeros"],
)
def test_tensors_made_for_a_step_feed_it(made: Call):
    """What surrounds `tf.constant(batch)` lies among the ops; `tf.zeros(shape)` makes one, too."""
    wrapped = call("error_handler", 1, file=f"{TF}/util/traceback_utils.py", called_line=20)
    constant = call("constant", 90, parent=2, file=f"{TF}/framework/constant_op.py")

    found = step(LOOP, wrapped, made, constant)

    assert found.parts[Part.FEED] >= 90_000


def test_what_a_library_wraps_is_told_by_its_own_name():
    """`tf.norm(weights)` is `norm`, whatever TensorFlow puts around it."""
    wrapped = call("error_handler", 5, file=f"{TF}/util/traceback_utils.py", called_line=20)
    asks = call("is_enabled", 1, parent=1, file=f"{TF}/util/traceback_utils.py")
    handler = call("op_dispatch_handler", 5, parent=1, file=f"{TF}/util/dispatch.py")
    norm = call("norm", 1, parent=3, file=f"{TF}/ops/linalg_ops.py")
    product = call("matmul", 90, parent=4, file=f"{TF}/ops/math_ops.py")

    found = step(LOOP, wrapped, asks, handler, norm, product)

    dearest = max(found.causes, key=lambda cause: cause.duration_ns)
    assert (dearest.what, dearest.line) == ("norm", 20)


def test_taking_a_tensor_apart_is_no_feed():
    """`[float(loss[i]) for i in range(n)]` converts its indices, but hands over nothing."""
    found = step(
        LOOP,
        call("_slice_helper", 1, file=f"{TF}/ops/array_ops.py"),
        call("constant", 90, parent=1, file=f"{TF}/framework/constant_op.py"),
    )

    assert found.parts[Part.FETCH] == 91_000


def test_the_packages_of_tensorflow_1_are_known():
    """They lie in tensorflow_core: what a Saver does in Python is saving."""
    core = "/env/lib/python3.7/site-packages/tensorflow_core/python"
    saver = f"{core}/training/saver.py"

    found = step(
        LOOP,
        call("save", 1, file=saver),
        call("_MaybeDeleteOldCheckpoints", 90, parent=1, file=saver),
        call("__next__", 50, file=f"{core}/data/ops/iterator_ops.py"),
    )

    assert found.parts[Part.CHECKPOINTS] == 91_000
    assert found.parts[Part.INPUT_WAIT] == 50_000


@pytest.mark.parametrize(
    ("file", "function", "what"),
    [
        ("callbacks/progbar_logger.py", "on_train_batch_end", "progbar_logger.on_train_batch_end"),
        ("callbacks.py", "_batch_update_progbar", "_batch_update_progbar"),
    ],
)
def test_a_callback_of_keras_is_told_by_its_own_name(file: str, function: str, what: str):
    """Not as the list that calls all of them."""
    container = f"{KERAS}/callbacks/callback_list.py" if "/" in file else f"{KERAS}/callbacks.py"
    found = step(
        call("fit", 5, None, file=f"{KERAS}/trainer.py"),
        call("on_train_batch_end", 5, file=container),
        call(function, 90, parent=1, file=f"{KERAS}/{file}"),
    )

    (dearest, *_) = [each for each in found.causes if each.part is Part.CALLBACKS]
    assert (dearest.what, dearest.duration_ns) == (what, 90_000)


def test_reading_logs_in_a_callback_is_the_callbacks_where_nothing_is_waited_for():
    """Without the callback nobody would read them."""
    read = call("numpy", 70, parent=1, file=f"{TF}/framework/ops.py")

    found = step(LOOP, call("on_train_batch_end", 20), read)

    assert found.parts[Part.CALLBACKS] == 90_000
