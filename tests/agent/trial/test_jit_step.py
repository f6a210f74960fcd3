"""The fix that compiles steps of JAX, on a package whose compiled functions count their traces."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

JAX = """
class Array: ...
class Tracer: ...
taken = {}
def value_and_grad(fun):
    def made(*args):
        taken[fun.__name__] = taken.get(fun.__name__, 0) + (not tracing)
        return fun(*args), args[0]
    return made
grad = value_and_grad
tracing = []
class Jitted:
    def __init__(self, fun):
        self.fun, self.traced = fun, []
    def __call__(self, arrays, constants):
        if constants not in self.traced:
            self.traced.append(constants)
            tracing.append(self)
            try:
                self.fun([a if a is None else Tracer() for a in arrays], constants)
            finally:
                tracing.pop()
        return self.fun(arrays, constants)
    def _cache_size(self):
        return len(self.traced)
made = []
def jit(fun, static_argnums=None):
    made.append(Jitted(fun))
    return made[-1]
"""


def loss_of(weights: Any, *_others: Any) -> Any:
    """Give what may be a tracer back."""
    return weights


@pytest.fixture
def jax(make_module, monkeypatch) -> Any:
    """The package; the names of `tree_util` take arguments apart one level deep."""
    module: Any = make_module("jax", JAX)
    module.tree_util = SimpleNamespace(
        tree_flatten=lambda tree: ([*tree[0], *tree[1].values()], (len(tree[0]), tuple(tree[1]))),
        tree_unflatten=lambda tree, leaves: (
            tuple(leaves[: tree[0]]),
            dict(zip(tree[1], leaves[tree[0] :], strict=True)),
        ),
        tree_map=lambda *_: None,
    )
    monkeypatch.setitem(sys.modules, "jax", module)
    fixing = load("trial.fixes.jax.jit_step")
    monkeypatch.setattr(fixing.functions, "executes", lambda: not module.tracing)
    monkeypatch.setattr(
        fixing, "_gradients", lambda: {("grad", name): n for name, n in module.taken.items()}
    )
    monkeypatch.setattr(load("trial.units").COUNTER, "done", 0)
    monkeypatch.setattr(load("trial.weights"), "_left_out", [])
    return module


@pytest.fixture
def job(jax, monkeypatch) -> Any:
    """Functions of a job, in a module that gets the compiled ones; its list has what steps saw."""
    module = sys.modules[__name__]
    for name in (
        "step",
        "step_of_halves",
        "step_with_numbers",
        "reading_step",
        "global_step",
        "by_hand",
    ):
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(module, "SEEN", [])
    return module


SEEN: list[Any] = []
WEIGHTS: Any = 0.5


def step(jax, weights):
    """Take a gradient and apply it."""
    SEEN.append(type(weights).__name__)
    loss, _gradients = jax.value_and_grad(loss_of)(weights)
    jax.tree_util.tree_map(weights)
    return loss


def step_of_halves(jax, weights):
    """Take two gradients and apply their sum."""
    jax.value_and_grad(loss_of)(weights)
    jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(weights)


def step_with_numbers(jax, weights, number, size):
    """Take a number of the step, and one that must be a constant."""
    jax.value_and_grad(loss_of)(weights, number)
    return jax.tree_util.tree_map(range(size))


def reading_step(jax, weights):
    """Read the loss as a number."""
    loss, _ = jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(loss + 1)


def by_hand(jax, weights):
    """Take a gradient, and apply it without a function of JAX."""
    loss, _gradients = jax.value_and_grad(loss_of)(weights)
    return loss


def run_by_hand(jax):
    """Call it in a loop, in a function that calls what steps call, too."""
    {}.update()
    for _ in range(4):
        by_hand(jax, 0.5)


BY_HAND = by_hand


def global_step(jax, weights):
    """Keep new weights in a global."""
    global WEIGHTS
    WEIGHTS = jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(weights)


def test_a_step_is_compiled_after_two_calls(jax, job, fix, counted) -> None:
    """One shows which function it is, and one how many gradients a call takes."""
    note = fix("jit_step", jax)

    results = [job.step(jax, 0.5) for _ in range(5)]

    assert results == [0.5] * 5
    assert SEEN[:4] == ["float", "float", "Tracer", "float"]
    assert (note.times, note.reasons, note.error) == (3, {}, None)
    assert counted == {("jit", "step"): (1, "grad")}
    assert load("trial.units").COUNTER.done == 1


def test_what_is_around_the_loop_is_not_the_step(jax, job, fix) -> None:
    """It is called once, whatever it does before."""
    note = fix("jit_step", jax)

    job.run_by_hand(jax)

    assert job.by_hand is not BY_HAND
    assert (note.times, note.reasons) == (2, {})


def test_a_step_counts_as_its_gradients(jax, job, fix, counted) -> None:
    """The base counts each of them."""
    fix("jit_step", jax)

    for _ in range(3):
        job.step_of_halves(jax, 0.5)

    assert counted == {("jit", "step_of_halves"): (2, "grad")}


def test_weights_are_left_out(jax, job, fix) -> None:
    """A gradient ends before the update, a compiled step after it."""
    fix("jit_step", jax)
    for _ in range(3):
        job.step(jax, 0.5)

    document, data = load("trial.weights")._measured(16)

    assert (list(document), data) == (["missing"], None)


def test_numbers_that_vary_are_no_constants(jax, job, fix) -> None:
    """Others are: a size cannot be traced."""
    note = fix("jit_step", jax)

    for number in range(12):
        job.step_with_numbers(jax, 0.5, number, 4)

    assert (note.reasons, note.error) == ({}, None)
    assert [jitted._cache_size() for jitted in jax.made] == [6, 1]


def test_a_step_that_reads_a_number_runs_as_it_is(jax, job, fix, counted) -> None:
    """It cannot be traced, and is counted as before."""
    note = fix("jit_step", jax)

    for _ in range(4):
        job.reading_step(jax, 0.5)

    assert note.reasons == {"reading_step cannot be traced: TypeError": 1}
    assert (note.times, counted) == (0, {})


def test_a_step_that_changes_a_global_is_left_alone(jax, job, fix) -> None:
    """The compiled program would change it once."""
    note = fix("jit_step", jax)

    for _ in range(3):
        job.global_step(jax, 0.5)

    assert note.times == 0
    assert "global_step changes attributes or globals" in note.reasons
    assert job.WEIGHTS[0] == 0.5


def test_a_gradient_in_a_loop_is_compiled_alone(jax, fix, counted) -> None:
    """It stays the step that is counted; its weights are those of the base."""
    note = fix("jit_step", jax)
    gradient = jax.value_and_grad(loss_of)

    for _ in range(4):
        gradient(0.5)

    assert (note.times, counted) == (3, {})
    assert note.reasons == {"the step is written inline in a loop": 1}
    assert load("trial.weights")._left_out == []


def test_a_gradient_that_is_made_in_a_loop_is_not(jax, fix) -> None:
    """Each is another one."""
    note = fix("jit_step", jax)

    for _ in range(4):
        jax.value_and_grad(loss_of)(0.5)

    assert (note.times, note.reasons) == (0, {"the step is written inline in a loop": 1})


def test_an_object_that_may_change_is_no_constant(jax, job, fix) -> None:
    """The compiled program would not see how it changes."""
    note = fix("jit_step", jax)

    class Trainer:
        def step(self, weights: float) -> None:
            jax.value_and_grad(loss_of)(weights)
            jax.tree_util.tree_map(weights)

    trainer = Trainer()
    for _ in range(4):
        trainer.step(0.5)

    assert (note.times, note.reasons) == (0, {"step cannot be traced: TypeError": 1})


def test_gradients_of_libraries_are_theirs(jax, make_module, fix) -> None:
    """What they differentiate is no step of the job."""
    note = fix("jit_step", jax)
    library = make_module("library", "def loss(weights):\n    return weights")

    for _ in range(4):
        jax.value_and_grad(library.loss)(0.5)

    assert (note.times, note.reasons) == (0, {})
