"""Windows between two marks of PyTorch that nobody ends."""

from __future__ import annotations

import gc
import itertools
import sys
import threading

import pytest

from tests.support.agent import load

profiler = load("frameworks.torch.profiler")


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, in order; a window would end where it says so."""
    found: list[str] = []
    monkeypatch.setattr(profiler, "end_window", lambda _thread: found.append("ended"))
    return found


@pytest.mark.usefixtures("state")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="collections run between instructions")
def test_a_window_does_not_end_inside_a_collection(ended: list[str]) -> None:
    """A collection may run while PyTorch's function is about to be called; see pytorch's tracer."""
    import ctypes  # noqa: F401 - as PyTorch does

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
@pytest.mark.skipif(sys.version_info < (3, 12), reason="the interpreter is asked")
def test_a_window_ends_after_a_collection(ended: list[str]) -> None:
    """Once for each."""
    watch = profiler._collection_callback()
    gc.callbacks.append(watch)
    try:
        gc.collect()
    finally:
        gc.callbacks.remove(watch)

    assert ended == ["ended"]


@pytest.mark.usefixtures("state")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="collections run between instructions")
def test_a_window_of_another_thread_is_not_looked_at() -> None:
    """The interpreter would do it in the main thread, which cannot end it."""
    found = []
    thread = threading.Thread(target=lambda: found.append(profiler._collection_callback()))
    thread.start()
    thread.join()

    assert found == [None]
