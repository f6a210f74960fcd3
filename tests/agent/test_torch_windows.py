"""Windows between two marks of PyTorch that nobody ends."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
from types import SimpleNamespace

import pytest

from tests.support.agent import load

profiler, tracing = load("frameworks.torch.profiler"), load("core.tracing")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, in order; a window would end where it says so."""
    found: list[str] = []
    monkeypatch.setattr(profiler, "end_window", lambda _thread: found.append("ended"))
    return found


def _runs_on(monkeypatch: pytest.MonkeyPatch, *version: int) -> None:
    """Let the agent take the interpreter for this version, with ctypes loaded as by PyTorch."""
    modules = {**sys.modules, "ctypes": ctypes}
    monkeypatch.setattr(profiler, "sys", SimpleNamespace(version_info=version, modules=modules))


@pytest.mark.usefixtures("state")
def test_a_window_does_not_end_inside_a_collection(ended: list[str], monkeypatch) -> None:
    """A collection may run while PyTorch's function is about to be called; see pytorch's tracer."""
    _runs_on(monkeypatch, 3, 11)
    watch = profiler._collection_callback()
    gc.disable()  # of collections, that of the test alone
    gc.callbacks.append(watch)
    try:
        # One call of C: the interpreter gets to no instruction before all of it is done.
        list(itertools.chain(map(gc.collect, (0,)), map(ended.append, ("after",))))
    finally:
        gc.callbacks.remove(watch)
        gc.enable()

    assert ended[:2] == ["after", "ended"]


@pytest.mark.usefixtures("state")
def test_callbacks_of_the_job_do_not_end_it_before(ended: list[str], monkeypatch) -> None:
    """They are functions of Python, which the collector calls at its start and at its end."""
    _runs_on(monkeypatch, 3, 11)
    watch = profiler._collection_callback()

    def of_the_job(phase: str, _info: object) -> None:
        ended.append(phase)

    gc.disable()
    gc.callbacks[:0] = [of_the_job]
    gc.callbacks.append(watch)
    try:
        list(itertools.chain(map(gc.collect, (0,)), map(ended.append, ("after",))))
    finally:
        gc.callbacks.remove(watch)
        gc.callbacks.remove(of_the_job)
        gc.enable()

    assert ended[:4] == ["start", "stop", "after", "ended"]


@pytest.mark.usefixtures("state")
def test_a_window_ends_after_a_collection(ended: list[str], monkeypatch) -> None:
    """Once for each, where collections run between two instructions."""
    _runs_on(monkeypatch, 3, 12)
    watch = profiler._collection_callback()
    gc.callbacks.append(watch)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(watch)

    assert ended == ["ended"]


@pytest.mark.usefixtures("state")
def test_a_window_of_another_thread_is_not_looked_at(monkeypatch) -> None:
    """The interpreter would do it in the main thread, which cannot end it."""
    _runs_on(monkeypatch, 3, 11)
    found = []
    thread = threading.Thread(target=lambda: found.append(profiler._collection_callback()))
    thread.start()
    thread.join()

    assert found == [None]


@pytest.mark.usefixtures("state")
def test_a_window_that_the_exit_ends_leaves_nothing_behind(ended: list[str], monkeypatch) -> None:
    """A collection of the interpreter that ends would call functions that have been taken apart."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__file__="/none/__init__.py"))
    monkeypatch.setattr(profiler, "_NUMBERS", {})
    _runs_on(monkeypatch, 3, 11)
    window = profiler.MarkedWindow(None)
    monkeypatch.setattr(window, "discard", lambda _session: None)
    window.session, window.on_collection = object(), profiler._collection_callback()
    tracing.TRACING.window = window
    gc.callbacks.append(window.on_collection)
    assert tracing.take(window)

    assert window.surrender()

    assert window.on_collection not in gc.callbacks
    assert (tracing.TRACING.window, tracing.holder()) == (None, None)
    gc.collect()
    assert ended == []
