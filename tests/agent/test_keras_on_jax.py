"""A step of Keras on JAX is the call of the function that it compiled, where that is one call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

on_jax, functions = load("frameworks.keras.on_jax"), load("frameworks.jax.functions")
stand_in = load("frameworks.jax.stand_in")
TRAINER = "keras.src.backend.jax.trainer"


class Compiled:
    """A function as `jax.jit` makes it."""

    def __call__(self, state: Any, data: Any) -> Any:
        return state, data


@pytest.fixture
def compiled() -> Any:
    """What stands for it in the job; `made` are the loops that its calls were made for."""
    made: list[Any] = []

    def step_wrapper(function: Any, _owner: Any, place: Any = None) -> Any:
        made.append(place)
        return function

    found = stand_in.stand_in(Compiled(), functools.partial(step_wrapper))
    found.__dict__["made"] = made
    return found


def of_keras(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as if it were one of Keras' trainer."""
    function.__module__ = TRAINER
    return function


def train_function(step_function: Any) -> Callable[..., Any]:
    """The train function of Keras for one batch."""

    def iterator_step(state: Any, iterator: Iterator[Any]) -> Any:
        return step_function(state, next(iterator))

    return of_keras(iterator_step)


def test_the_compiled_function_is_the_step(compiled: Any) -> None:
    """Its calls are those of the loop of Keras; asked again, nothing is made again."""
    function = train_function(compiled)

    assert on_jax.adopt(function, "fit", "model")
    assert on_jax.adopt(function, "fit", "model")
    assert compiled.made == [None, ("fit", "model")]


def test_a_predict_function_has_it_one_function_further(compiled: Any) -> None:
    """Keras wraps it to leave out the state."""
    inner = train_function(compiled)

    def step_function(state: Any, iterator: Iterator[Any]) -> Any:
        return inner(state, iterator)

    assert on_jax.adopt(of_keras(step_function), "predict", "model")


def test_flax_keeps_it_in_an_object(compiled: Any) -> None:
    """Keras makes it by nnx.jit if it is enabled."""
    assert on_jax.adopt(train_function(SimpleNamespace(jitted_fn=compiled)), "fit", "model")


def test_several_batches_in_a_call_are_one_step(compiled: Any) -> None:
    """With steps_per_execution, the function refers to its model as well."""
    model = SimpleNamespace(steps_per_execution=3)

    def iterator_step(state: Any, iterator: Iterator[Any]) -> Any:
        for _ in range(model.steps_per_execution):
            compiled(state, next(iterator))

    assert not on_jax.adopt(of_keras(iterator_step), "fit", "model")


def test_what_is_not_compiled_or_not_of_keras_is_left(compiled: Any) -> None:
    """`run_eagerly`, and a model that makes its own train function."""
    plain = train_function(lambda state, data: (state, data))
    own = train_function(compiled)
    own.__module__ = "train"

    assert not on_jax.adopt(plain, "fit", "model")
    assert not on_jax.adopt(own, "fit", "model")
    assert not on_jax.adopt(print, "fit", "model")
