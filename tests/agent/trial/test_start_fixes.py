"""Fixes that a process gets at its start, by a variable: the agent says if they are in effect."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from tests.support.agent import load

CONTEXT = "tensorflow.python.eager.context"
SESSION = "tensorflow.python.client.session"


@pytest.fixture
def gpu(monkeypatch):
    """The machine seems to have a GPU."""
    monkeypatch.setattr(load("trial.fixes.devices"), "GPUS", ("/dev/null",))


@pytest.fixture
def no_gpu(monkeypatch):
    """The machine seems to have none."""
    monkeypatch.setattr(load("trial.fixes.devices"), "GPUS", ("/dev/no/gpu",))


def _loaded() -> str:
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "/libc." in line or "/ld-" in line)


def test_an_allocator_that_is_loaded_is_applied(fix):
    """As the loader has it, whatever the link is called."""
    note = fix("allocator", os, _loaded())

    assert (note.times, note.reasons) == (1, {})


def test_one_that_is_not_loaded_is_not(fix):
    """A program may be of another processor, or drop the variable."""
    note = fix("allocator", os, "/no/libtcmalloc.so.4")

    assert (note.times, note.reasons) == (0, {"/no/libtcmalloc.so.4 is not loaded": 1})
    assert fix("allocator", os, "").error == "needs a library"


def test_threads_of_a_gpu_need_one(fix, make_module, gpu):
    """TensorFlow reads the variable when it finds the device."""
    assert fix("gpu_threads", make_module(CONTEXT, "")).times == 1


def test_without_a_gpu_nothing_is_changed(fix, make_module, no_gpu):
    """With the reason."""
    for name in ("gpu_threads", "layout_optimizer"):
        note = fix(name, make_module(CONTEXT, ""))

        assert (note.times, note.reasons) == (0, {"there is no GPU": 1})


OPTIONS = """
class Context:
    def __init__(self):
        self.options = {}
    def set_optimizer_experimental_options(self, options):
        self.options.update(options)
"""


def test_a_layout_that_was_switched_off_is_chosen_again(fix, make_module, gpu):
    """Other options stay the program's."""
    module = make_module(CONTEXT, OPTIONS)
    note = fix("layout_optimizer", module)
    context = module.Context()

    context.set_optimizer_experimental_options({"layout_optimizer": False, "remapping": False})
    context.set_optimizer_experimental_options({"constant_folding": False})

    assert context.options == {
        "layout_optimizer": True,
        "remapping": False,
        "constant_folding": False,
    }
    assert note.times == 1


class _Config:
    """Stands for a ConfigProto."""

    def __init__(self, layout: int = 0) -> None:
        rewrite = SimpleNamespace(layout_optimizer=layout)
        self.graph_options = SimpleNamespace(rewrite_options=rewrite)

    def CopyFrom(self, other: _Config) -> None:  # noqa: N802 - as protobuf has it
        self.graph_options.rewrite_options.layout_optimizer = other.layout

    @property
    def layout(self) -> int:
        return self.graph_options.rewrite_options.layout_optimizer


SESSIONS = """
class BaseSession:
    def __init__(self, target="", graph=None, config=None):
        self.config = config
"""


def test_a_session_gets_its_layout_back(fix, make_module, gpu):
    """In a copy: the program may use its options again."""
    module = make_module(SESSION, SESSIONS)
    note = fix("layout_optimizer", module)
    off, default = _Config(2), _Config()

    assert module.BaseSession(config=off).config.layout == 1
    assert module.BaseSession("", None, default).config is default
    assert module.BaseSession().config is None
    assert (off.layout, note.times) == (2, 1)
