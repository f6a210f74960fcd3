"""The fix that compiles steps of JAX, on a package whose compiled functions count their traces."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load

JAX = """
class Array(float): ...
class Tracer: ...
def value_and_grad(fun):
    def made(*args):
        return fun(*args), args[0]
    made.__name__ = fun.__name__
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
        tracing.append(self)
        try:
            return self.fun(arrays, constants)
        finally:
            tracing.pop()
    def _cache_size(self):
        return len(self.traced)
made = []
def jit(fun, static_argnums=None):
    made.append(Jitted(fun))
    return made[-1]
"""


class Seen:
    """What steps were called with."""

    kinds: list[str] = []  # noqa: RUF012 - replaced


def loss_of(weights: Any, *_others: Any) -> Any:
    """Give what may be a tracer back."""
    return weights


@pytest.fixture
def jax(make_module, monkeypatch) -> Any:
    """The package; the names of `tree_util` take arguments apart one level deep."""
    module: Any = make_module("jax", JAX)

    def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
        if isinstance(tree, dict):
            tree = tuple(tree.values())
        if not isinstance(tree, tuple):
            return [] if tree is None else [tree]
        return [leaf for each in tree for leaf in tree_leaves(each)]

    module.tree_util = SimpleNamespace(
        tree_leaves=tree_leaves,
        all_leaves=lambda _leaves: True,
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
    counter = load("trial.units").COUNTER
    monkeypatch.setattr(counter, "done", 0)
    monkeypatch.setattr(counter, "unit", ("grad", "loss_of"))
    monkeypatch.setattr(load("trial.weights"), "_left_out", [])
    monkeypatch.setattr(load("trial.losses").LOSSES, "left_out", "")
    return module


@pytest.fixture
def job(jax, monkeypatch) -> Any:
    """Functions of a job, in a module that gets the compiled ones."""
    module = sys.modules[__name__]
    for name in [name for name in vars(module) if "step" in name or name == "by_hand"]:
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(Seen, "kinds", [])
    return module


WEIGHTS: Any = 0.5
RATE = 0.1
RATE = RATE / 2
HISTORY: list[Any] = []


def step(jax, weights):
    """Take a gradient and apply it."""
    Seen.kinds.append(type(weights).__name__)
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


def changing_step(jax, state):
    """Put new weights into its argument."""
    state["weights"] = jax.value_and_grad(loss_of)(state["weights"])[1] * 1
    return jax.tree_util.tree_map(state)


def counting_step(jax, weights):
    """Return a number of Python's."""
    jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(weights), 1


def step_with_schedule(jax, weights):
    """Use a number that the program assigns again."""
    jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(RATE)


def remembering_step(jax, weights):
    """Keep the loss in a list, by a function of its own."""
    remember(jax.value_and_grad(loss_of)(weights))
    return jax.tree_util.tree_map(weights)


def remember(loss):
    """Keep it."""
    HISTORY.append(loss)


def random_step(jax, weights):
    """Draw a number that a compiled program would draw once."""
    jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(random.random())


def late_step(jax, weights, logs):
    """Read the loss as a number now and then."""
    loss, _ = jax.value_and_grad(loss_of)(weights)
    if logs:
        float(loss)
    return jax.tree_util.tree_map(weights)


class Trainer:
    """Takes steps as a method."""

    def step(self, jax, weights):
        jax.value_and_grad(loss_of)(weights)
        return jax.tree_util.tree_map(weights)


def by_hand(jax, weights):
    """Take a gradient, and apply it without a function of JAX."""
    loss, _gradients = jax.value_and_grad(loss_of)(weights)
    return loss


def run_by_hand(jax):
    """Call it in a loop, in a function that calls what steps call, too."""
    {}.update()
    for _ in range(4):
        by_hand(jax, jax.Array(0.5))


BY_HAND = by_hand


def global_step(jax, weights):
    """Keep new weights in a global."""
    global WEIGHTS
    WEIGHTS = jax.value_and_grad(loss_of)(weights)
    return jax.tree_util.tree_map(weights)


def run(job: Any, name: str, jax: Any, *others: Any, times: int = 4) -> list[Any]:
    """Call a step of the job by its name in the module, as a loop does."""
    return [getattr(job, name)(jax, jax.Array(0.5), *others) for _ in range(times)]


def test_a_step_is_compiled_after_two_calls(jax, job, fix, counted) -> None:
    """One shows which function it is, and one what it does with its arguments."""
    note = fix("jit_step", jax)

    results = run(job, "step", jax, times=5)

    assert results == [0.5] * 5
    assert Seen.kinds[:4] == ["Array", "Array", "Tracer", "Array"]
    assert (note.times, note.reasons, note.error) == (3, {}, None)
    ((place, (units, stands_for)),) = counted.items()
    assert (place, units(), stands_for) == (("jit", "step"), 1, "grad")
    assert load("trial.units").COUNTER.done == 1


def test_what_is_around_the_loop_is_not_the_step(jax, job, fix) -> None:
    """It is called once, whatever it does before."""
    note = fix("jit_step", jax)

    job.run_by_hand(jax)

    assert job.by_hand is not BY_HAND
    assert (note.times, note.reasons) == (2, {})


def test_a_step_counts_as_its_gradients(jax, job, fix, counted) -> None:
    """The base counts each of them, and has the loss of each."""
    fix("jit_step", jax)

    run(job, "step_of_halves", jax)

    ((units, _),) = counted.values()
    assert units() == 2
    assert "several gradients" in load("trial.losses").LOSSES.left_out


def test_weights_are_left_out(jax, job, fix) -> None:
    """A gradient ends before the update, a compiled step after it."""
    fix("jit_step", jax)
    run(job, "step", jax)

    document, data = load("trial.weights")._measured(16)

    assert (list(document), data) == (["missing"], None)


def test_numbers_that_vary_are_no_constants(jax, job, fix) -> None:
    """Others are: a size cannot be traced."""
    note = fix("jit_step", jax)

    for number in range(12):
        job.step_with_numbers(jax, jax.Array(0.5), number, 4)

    assert (note.reasons, note.error) == ({}, None)
    assert [jitted._cache_size() for jitted in jax.made] == [6, 1]


def test_a_step_that_reads_a_number_runs_as_it_is(jax, job, fix, counted) -> None:
    """It cannot be traced, and is counted as before."""
    note = fix("jit_step", jax)

    run(job, "reading_step", jax)

    assert note.reasons == {"reading_step cannot be traced: TypeError": 1}
    assert (note.times, counted) == (0, {})


def test_a_step_that_reads_a_number_later_goes_on(jax, job, fix) -> None:
    """From then on it runs as it is."""
    note = fix("jit_step", jax)

    for turn in range(8):
        job.late_step(jax, jax.Array(0.5), turn == 5)

    assert (note.times, note.error) == (3, None)
    assert note.reasons == {"late_step cannot be traced: TypeError": 1}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("global_step", "global_step changes attributes or globals"),
        ("counting_step", "counting_step returns what is no array of JAX"),
        ("step_with_schedule", "step_with_schedule uses RATE, which may change"),
        ("remembering_step", "remember uses HISTORY, which may change"),
        ("random_step", "random_step uses random"),
    ],
)
def test_what_a_compiled_program_would_not_follow_is_left_alone(jax, job, fix, name, why) -> None:
    """It keeps what Python does as it was while it was traced."""
    note = fix("jit_step", jax)

    run(job, name, jax)

    assert (note.times, note.error) == (0, None)
    assert why in note.reasons


def test_a_step_that_changes_its_arguments_is_left_alone(jax, job, fix) -> None:
    """The program reads them, not what is returned."""
    note = fix("jit_step", jax)
    state = {"weights": jax.Array(0.5)}

    for _ in range(4):
        job.changing_step(jax, state)

    assert (note.times, note.reasons) == (0, {"changing_step changes its arguments": 1})


def test_a_step_that_is_called_by_another_name_is_told(jax, job, fix) -> None:
    """It was replaced where it is bound."""
    note = fix("jit_step", jax)
    other = job.step

    for _ in range(30):
        other(jax, jax.Array(0.5))

    assert (note.times, note.reasons) == (0, {"step is called by another name": 1})


def test_a_gradient_in_a_loop_is_compiled_alone(jax, fix, counted) -> None:
    """It stays the step that is counted; its weights are those of the base."""
    note = fix("jit_step", jax)
    gradient = jax.value_and_grad(loss_of)

    for _ in range(4):
        gradient(jax.Array(0.5))

    assert (note.times, counted) == (3, {})
    assert note.reasons == {"the step is written inline in a loop": 1}
    assert load("trial.weights")._left_out == []


@pytest.mark.parametrize("is_array", [False, True])
def test_a_gradient_of_what_lies_around_it_is_not(jax, fix, is_array) -> None:
    """The program may bind it anew."""
    note = fix("jit_step", jax)
    rate = jax.Array(0.1) if is_array else 0.1

    def loss(weights: Any) -> Any:
        return weights, rate

    gradient = jax.value_and_grad(loss)
    for _ in range(4):
        gradient(jax.Array(0.5))

    assert note.times == 0
    assert "loss uses rate of the function around it, which may change" in note.reasons


def test_a_gradient_that_is_made_in_a_loop_is_not(jax, fix) -> None:
    """Each is another one."""
    note = fix("jit_step", jax)

    for _ in range(4):
        jax.value_and_grad(loss_of)(jax.Array(0.5))

    assert (note.times, note.reasons) == (0, {"the step is written inline in a loop": 1})


def test_an_object_that_may_change_is_no_constant(jax, job, fix, monkeypatch) -> None:
    """The compiled program would not see how it changes."""
    note = fix("jit_step", jax)
    monkeypatch.setattr(Trainer, "step", Trainer.step)
    trainer = Trainer()

    for _ in range(4):
        trainer.step(jax, jax.Array(0.5))

    assert (note.times, note.reasons) == (0, {"step cannot be traced: TypeError": 1})


def test_gradients_of_libraries_are_theirs(jax, make_module, fix) -> None:
    """What they differentiate is no step of the job."""
    note = fix("jit_step", jax)
    library = make_module("library", "def loss(weights):\n    return weights")

    for _ in range(4):
        jax.value_and_grad(library.loss)(jax.Array(0.5))

    assert (note.times, note.reasons) == (0, {})
