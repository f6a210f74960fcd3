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
    monkeypatch.setattr(load("trial.fixes.jax.matmul_precision"), "_DEVICES", ("/dev/null",))


@pytest.fixture
def has_none(monkeypatch):
    """The machine seems to have none."""
    monkeypatch.setattr(load("trial.fixes.jax.matmul_precision"), "_DEVICES", ("/dev/no/gpu",))


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
