"""The job's settings are recorded once, at its first trace, without calling TensorFlow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import Laboratory, load

traced_step = load("frameworks.tensorflow.settings")


def _settings(laboratory: Laboratory) -> list[dict[str, Any]]:
    return [event["settings"] for event in laboratory.events(kind="settings")]


def test_settings_are_written_at_the_first_trace(laboratory: Laboratory) -> None:
    """Once; a job without traces writes none."""
    laboratory.arm(every=2)

    laboratory.finish("for _ in range(9): session.run('loss')", env={"OMP_NUM_THREADS": "3"})

    (settings,) = _settings(laboratory)
    assert settings["environment"] == {"OMP_NUM_THREADS": "3"}
    assert settings["intra_op_threads"] == 0
    assert (settings["jit"], settings["eager"], settings["memory_growth"]) == (False, False, False)


def test_settings_are_those_of_session_context_and_keras(laboratory: Laboratory) -> None:
    """Pools, XLA, grappler, precision, layout, and what a model was compiled with."""
    laboratory.arm(every=1)

    laboratory.finish("""
import tensorflow.python.eager.context as context, types
context._context._intra_op_parallelism_threads = 6
context._context._optimizer_jit = "autoclustering"
context._context._optimizer_experimental_options = {"layout_optimizer": True}
context._context._memory_growth_map = {"gpu": True}
def_function.RUN_FUNCTIONS_EAGERLY = True
policy = types.SimpleNamespace(_global_policy=types.SimpleNamespace(name="mixed_bfloat16"))
sys.modules["keras.mixed_precision.policy"] = policy
sys.modules["keras.backend_config"] = types.SimpleNamespace(_IMAGE_DATA_FORMAT="channels_first")
def_function.Function()(1)
""")

    (settings,) = _settings(laboratory)
    assert settings["intra_op_threads"] == 6
    assert settings["optimizer"] == {"layout_optimizer": True}
    assert settings["mixed_precision"] == "mixed_bfloat16"
    assert settings["image_data_format"] == "channels_first"
    assert (settings["jit"], settings["eager"], settings["memory_growth"]) == (True, True, True)


def test_only_variables_that_affect_speed_are_written(laboratory: Laboratory) -> None:
    """A token in a variable that begins like TensorFlow's is not."""
    laboratory.arm(every=1)
    given = {"TF_TOKEN_example_com": "secret", "TF_CONFIG": "{}", "TF_XLA_FLAGS": "--x" * 900}

    laboratory.finish("session.run('loss')", env=given)

    (settings,) = _settings(laboratory)
    assert settings["environment"] == {"TF_XLA_FLAGS": ("--x" * 900)[:1000]}


class FakeArray:
    """Stands for numpy's array: the agent looks at its type, its dtype and its size."""

    def __init__(self, nbytes: int, dtype: object = float) -> None:
        self.nbytes, self.dtype = nbytes, dtype


class FakeNumber:
    """Stands for numpy's numbers."""


class EagerTensor:
    """Stands for TensorFlow's, whose value must not be fetched."""

    def __init__(self, shape: tuple[int, ...], element: type) -> None:
        self._shape = shape
        self.dtype = SimpleNamespace(as_numpy_dtype=element)

    def _shape_tuple(self) -> tuple[int, ...]:
        return self._shape

    def numpy(self) -> None:
        raise AssertionError("this waits for the device")


@pytest.fixture
def numpy(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A numpy of types only."""
    module = SimpleNamespace(
        ndarray=FakeArray,
        generic=FakeNumber,
        number=FakeNumber,
        bool_=FakeNumber,
        dtype=lambda element: SimpleNamespace(itemsize={int: 8, float: 4}[element]),
    )
    monkeypatch.setattr(traced_step, "sys", SimpleNamespace(modules={"numpy": module}))
    return module


@pytest.mark.parametrize(
    ("feeds", "expected"),
    [
        ([FakeArray(10), FakeArray(20), 3, True, 0.5], 30),
        ([], 0),
        ([FakeArray(10), [1, 2]], None),
        ([FakeArray(10, object)], None),
        ([FakeArray(1)] * 101, None),
    ],
    ids=["arrays and numbers", "nothing", "a list", "objects", "too many"],
)
def test_fed_bytes_are_those_of_arrays(numpy, feeds: list[object], expected: object) -> None:
    """The size of a value that would have to be converted is unknown."""
    assert traced_step.fed_bytes(feeds) == expected


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (EagerTensor((2, 3), float), 24),
        ({"loss": EagerTensor((), float), "logits": EagerTensor((8, 10), int)}, 644),
        ([FakeArray(5), None, 1.5], 5),
        (None, None),
        ([[EagerTensor((2,), float)]], None),
        (EagerTensor((2,), object), None),
        ("text", None),
        ([1] * 101, None),
    ],
    ids=["tensor", "logs", "arrays", "nothing", "nested", "strings", "text", "too many"],
)
def test_result_bytes_come_from_shapes(numpy, result: object, expected: object) -> None:
    """No value is fetched from a device to know its size."""
    assert traced_step.result_bytes(result) == expected


def test_a_session_step_records_what_it_was_fed(laboratory: Laboratory) -> None:
    """In the event of its trace; a callable by position, a run by name."""
    laboratory.arm(every=1)

    laboratory.finish("""
import types
class ndarray:
    nbytes, dtype = 40, float
nothing = type("nothing", (), {})
numpy = types.SimpleNamespace(ndarray=ndarray, generic=nothing, number=nothing, bool_=nothing)
sys.modules["numpy"] = numpy
session.run("loss", {"x": ndarray(), "y": ndarray()})
session.run("loss")
session.run("loss", feed_dict={"x": [1]})
""")

    fed = [event["fed_bytes"] for event in laboratory.events(kind="sample")]
    assert fed == [80, 0, None]
