"""Fixes of JAX programs, on a package that has options alone."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support.agent import load


@pytest.fixture
def jax(monkeypatch):
    """The package that the job has imported."""

    class Config:
        jax_debug_nans = jax_debug_infs = False
        jax_default_matmul_precision = jax_platforms = None
        jax_compilation_cache_dir = None
        jax_enable_compilation_cache = True

        def update(self, option: str, setting: Any) -> None:
            setattr(self, option, setting)

    module: Any = ModuleType("jax")
    module.config = Config()
    module.debug_nans = module.debug_infs = lambda setting: setting
    monkeypatch.setitem(sys.modules, "jax", module)
    return module


@pytest.fixture
def has_accelerator(monkeypatch):
    """The machine seems to have one."""
    monkeypatch.setattr(load("trial.fixes.devices"), "TPUS", ("/dev/null",))


@pytest.fixture
def has_none(monkeypatch):
    """The machine seems to have none."""
    for name in ("GPUS", "TPUS"):
        monkeypatch.setattr(load("trial.fixes.devices"), name, ("/dev/no/gpu",))


def test_nan_is_not_looked_for(jax, fix):
    """Whether the environment, the program or a region of it asks."""
    jax.config.jax_debug_infs = True
    note = fix("debug_nans_off", jax)

    jax.config.update("jax_debug_nans", True)
    jax.config.update("jax_debug_infs", False)

    assert (jax.config.jax_debug_nans, jax.config.jax_debug_infs) == (False, False)
    assert (jax.debug_nans(True), jax.debug_nans(False)) == (False, False)
    assert note.times == 3


def test_other_options_are_the_programs(jax, fix):
    """They reach JAX unchanged."""
    note = fix("debug_nans_off", jax)

    jax.config.update("jax_enable_x64", True)

    assert jax.config.jax_enable_x64 is True
    assert note.times == 0


def test_the_precision_that_a_program_asks_for_is_lowered(jax, fix, has_accelerator):
    """To JAX's default, unless the fix gives another."""
    note = fix("matmul_precision", jax)

    jax.config.update("jax_default_matmul_precision", "highest")

    assert jax.config.jax_default_matmul_precision == "default"
    assert (note.times, note.reasons) == (1, {"is default already": 1})


def test_a_precision_that_is_given_is_set_at_once(jax, fix, has_accelerator):
    """The program may set none."""
    note = fix("matmul_precision", jax, "bfloat16")

    assert jax.config.jax_default_matmul_precision == "bfloat16"
    assert (note.times, note.reasons) == (1, {})


def test_the_precision_stays_where_there_is_no_accelerator(jax, fix, has_none):
    """The reason is said."""
    note = fix("matmul_precision", jax)

    jax.config.update("jax_default_matmul_precision", "highest")

    assert jax.config.jax_default_matmul_precision == "highest"
    assert (note.times, note.reasons) == (0, {"there is no accelerator": 1})


def test_compiled_programs_are_kept(jax, fix):
    """Those that compile fast, too."""
    note = fix("compilation_cache", jax, "/somewhere")

    assert jax.config.jax_compilation_cache_dir == "/somewhere"
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.0
    assert note.times == 1


def test_a_cache_of_the_program_stays(jax, fix):
    """The reason is said."""
    jax.config.jax_compilation_cache_dir = "/own"
    note = fix("compilation_cache", jax, "/somewhere")

    assert jax.config.jax_compilation_cache_dir == "/own"
    assert (note.times, note.reasons) == (0, {"has a cache already": 1})


def test_a_cache_needs_a_directory(jax, fix):
    """Without one the fix has failed."""
    assert fix("compilation_cache", jax).error == "needs a directory"


class _Array:
    """Stands for jax.Array."""

    is_deleted = False


@pytest.fixture
def compiling(jax, monkeypatch):
    """The package with a `jit` whose functions delete the arrays that are donated to them."""

    def jit(fun, donate_argnums=(), donate_argnames=None):
        def compiled(*args):
            result = fun(*args)
            for at in donate_argnums:
                args[at].is_deleted = True
            return result

        compiled.lower = lambda: "lowered"
        compiled.__name__ = fun.__name__
        compiled.donated = donate_argnums
        return compiled

    def tree_leaves(tree):
        is_leaf = type(tree) is not tuple
        return [tree] if is_leaf else [leaf for each in tree for leaf in tree_leaves(each)]

    jax.jit, jax.Array = jit, _Array
    jax.tree_util = SimpleNamespace(tree_leaves=tree_leaves)
    fixing = load("trial.fixes.jax.donate_arguments")
    monkeypatch.setattr(fixing.functions, "executes", lambda: True)
    return jax


def _step(state, _batch):
    return _Array(), _Array()


def test_arguments_that_are_returned_results_are_donated(compiling, fix):
    """From the second call on; batches are the program's."""
    note = fix("donate_arguments", compiling)
    step, batches = compiling.jit(_step), [_Array() for _ in range(3)]
    states = [_Array()]
    for batch in batches:
        state, _loss = step(states[-1], batch)
        states.append(state)

    assert [state.is_deleted for state in states] == [False, True, True, False]
    assert not any(batch.is_deleted for batch in batches)
    assert (note.times, note.reasons, note.error) == (1, {}, None)
    assert (step.__name__, step.lower()) == ("_step", "lowered")


def test_an_array_that_is_passed_twice_is_not_donated(compiling, fix):
    """It could not be given away twice."""
    note = fix("donate_arguments", compiling)
    step, state = compiling.jit(_step), _Array()
    for _ in range(20):
        state, _loss = step(state, state)

    assert not state.is_deleted
    assert (note.times, note.reasons) == (0, {"_step is not called with what it has returned": 1})


def test_what_is_traced_is_not_looked_at(compiling, fix, monkeypatch):
    """Arguments are no arrays then."""
    note = fix("donate_arguments", compiling)
    fixing = load("trial.fixes.jax.donate_arguments")
    monkeypatch.setattr(fixing.functions, "executes", lambda: False)
    step, state = compiling.jit(_step), _Array()
    for _ in range(20):
        state, _loss = step(state, _Array())

    assert (note.times, note.reasons) == (0, {})


def test_a_program_that_donates_is_left_alone(compiling, fix):
    """It knows which arguments it needs no more."""
    note = fix("donate_arguments", compiling)

    step = compiling.jit(_step, donate_argnums=(0,))

    assert step.donated == (0,)
    assert note.reasons == {"the program donates arguments already": 1}


def test_what_libraries_compile_is_left_alone(compiling, fix, make_module):
    """As it is none of the program's calls."""
    library = make_module("optax", "def update(state, batch):\n    return state\n")
    note = fix("donate_arguments", compiling)

    assert compiling.jit(library.update).donated == ()
    assert (note.times, note.reasons) == (0, {})


def test_live_arrays_are_the_weights_whatever_their_order(jax, monkeypatch):
    """Those of floating point that are whole here and not deleted, equal ones once."""

    def make(data, **options):
        array = {"dtype": "f", "is_deleted": lambda: False, "is_fully_addressable": True}
        return SimpleNamespace(data=data, **{**array, **options})

    class Copied:
        def __init__(self, data):
            self.data, self.shape, self.dtype = data, (len(data),), "f"

        def tobytes(self):
            return self.data

    arrays = [
        make(b"bb"),
        make(b"ab"),
        make(b"bb"),
        make(b"1", dtype="i"),
        make(b"0", is_deleted=bool),
    ]
    arrays += [make(b"x", is_deleted=lambda: True), make(b"y", is_fully_addressable=False)]
    jax.live_arrays = lambda: arrays
    jax.numpy = SimpleNamespace(
        issubdtype=lambda dtype, kind: dtype == kind,
        floating="f",
    )
    numpy = SimpleNamespace(asarray=lambda array: Copied(array.data))
    monkeypatch.setitem(sys.modules, "numpy", numpy)

    named = load("trial.frameworks.jax").arrays()

    assert [(name, array.data) for name, array in named] == [
        ("array 0", b"0"),
        ("array 1", b"ab"),
        ("array 2", b"bb"),
    ]
