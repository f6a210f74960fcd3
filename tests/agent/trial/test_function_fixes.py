"""Fixes of tf.functions and of eager steps, on functions that only count how they are traced."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from tests.support.agent import load

FUNCTIONS = """
class Function:
    def __init__(self, python_function, **options):
        self.python_function, self.options, self.calls = python_function, options, []
        self._name = python_function.__name__
    def __call__(self, *args, **kwargs):
        self.calls.append(args)
        return self.python_function(*args, **kwargs)
    def experimental_get_tracing_count(self):
        return 1
def function(func=None, input_signature=None, reduce_retracing=False):
    return Function(func, reduce_retracing=reduce_retracing)
"""
TAPE = """
class GradientTape:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
"""
HOME = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


class _Tensor:
    """What numbers are made into."""

    def __init__(self, value):
        self.value = value


class _Optimizer:
    def __init__(self):
        self.applied = 0

    def apply_gradients(self, _pairs):
        self.applied += 1


OPTIMIZER = _Optimizer()


def step_in_module(backprop):
    """Train as a job does in a function of its own."""
    with backprop.GradientTape():
        pass
    OPTIMIZER.apply_gradients(())
    return "trained"


class Network:
    """Train as a job does in a method."""

    def step(self, backprop):
        with backprop.GradientTape():
            pass
        OPTIMIZER.apply_gradients(())


def inline(backprop):
    """Train as a job does without a function for the step."""
    for _ in range(3):
        with backprop.GradientTape():
            pass
        OPTIMIZER.apply_gradients(())


@pytest.fixture
def functions(make_module, monkeypatch):
    """TensorFlow's module of tf.function; constants are made elsewhere."""
    monkeypatch.setitem(
        sys.modules,
        "tensorflow.python.framework.constant_op",
        SimpleNamespace(constant=_Tensor),
    )
    return make_module(HOME, FUNCTIONS)


@pytest.fixture
def backprop(functions, make_module, monkeypatch):
    """TensorFlow's module of GradientTape, executing eagerly."""
    monkeypatch.setattr(load("frameworks.tensorflow.functions"), "executing_eagerly", lambda: True)
    return make_module("tensorflow.python.eager.backprop", TAPE)


def test_numbers_that_vary_become_tensors(functions, fix):
    """The first values show that they do."""
    note = fix("tensors_for_numbers", functions)
    step = functions.Function(lambda number, size: (number, size))

    results = [step(number, 4) for number in range(5)]

    kinds = [(type(number).__name__, type(size).__name__) for number, size in results]
    assert kinds == [("int", "int")] * 2 + [("_Tensor", "int")] * 3
    assert note.times == 3


def test_a_function_that_needs_numbers_gets_them(functions, fix):
    """A shape or a range cannot be a tensor."""
    note = fix("tensors_for_numbers", functions)
    step = functions.Function(lambda number: len(range(number)))

    results = [step(number) for number in range(6)]

    assert results == list(range(6))
    assert (note.times, note.reasons) == (0, {"<lambda> cannot take a tensor: TypeError": 1})


def test_functions_of_libraries_get_their_numbers(functions, make_module, fix):
    """They may be made for them."""
    note = fix("tensors_for_numbers", functions)
    library = make_module("library", "def step(number):\n    return number")
    step = functions.Function(library.step)

    assert [step(number) for number in range(5)] == list(range(5))
    assert note.times == 0


def test_retracing_is_reduced_for_functions_of_the_job(functions, fix):
    """Those with a signature are traced once anyway."""
    note = fix("reduce_retracing", functions)

    assert functions.function(print).options == {"reduce_retracing": True}
    functions.function(print, ())
    functions.function(print, reduce_retracing=True)

    reasons = {"has an input_signature": 1, "the program reduces retracing already": 1}
    assert (note.times, note.reasons) == (1, reasons)


def test_an_eager_step_of_a_module_is_compiled_after_its_first_call(
    backprop, fix, counted, monkeypatch
):
    """It is one unit before and after."""
    monkeypatch.setattr(sys.modules[__name__], "step_in_module", step_in_module)
    note = fix("function_step", backprop)

    results = [step_in_module(backprop) for _ in range(4)]

    assert results == ["trained"] * 4
    assert note.times == 3
    assert counted == {("function", "step_in_module"): (1, "eager")}


def test_an_eager_step_that_is_a_method_is_compiled(backprop, fix, counted, monkeypatch):
    """For all instances of the class."""
    monkeypatch.setattr(Network, "step", Network.step)
    note = fix("function_step", backprop)
    network = Network()

    for _ in range(3):
        network.step(backprop)

    assert note.times == 2
    assert counted == {("function", "step"): (1, "eager")}


def test_a_step_written_in_a_loop_cannot_be_compiled(backprop, fix, counted):
    """There is no function that does one step."""
    note = fix("function_step", backprop)

    inline(backprop)

    assert (note.times, counted) == (0, {})
    assert note.reasons == {"the step is written inline in a loop": 1}


def test_a_step_that_cannot_be_traced_runs_eagerly(backprop, functions, fix, monkeypatch):
    """For example one that reads its loss as a number."""

    def refuse(_self, *_args):
        raise NotImplementedError

    monkeypatch.setattr(sys.modules[__name__], "step_in_module", step_in_module)
    monkeypatch.setattr(functions.Function, "__call__", refuse)
    note = fix("function_step", backprop)

    results = [step_in_module(backprop) for _ in range(3)]

    assert results == ["trained"] * 3
    assert note.reasons == {"step_in_module cannot be traced: NotImplementedError": 1}
