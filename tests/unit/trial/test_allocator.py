"""The library of another allocator is looked for where distributions put it."""

from __future__ import annotations

from tfprobe.findings.fixes import chosen
from tfprobe.trial import allocator
from tfprobe.trial.allocator import find_allocator, with_library


def test_tcmalloc_comes_before_jemalloc(tmp_path) -> None:
    """In whatever folder either lies."""
    first, second = tmp_path / "lib64", tmp_path / "lib"
    for folder, name in ((first, "libjemalloc.so.2"), (second, "libtcmalloc_minimal.so.4")):
        folder.mkdir()
        (folder / name).touch()

    assert find_allocator([first, second]) == str(second / "libtcmalloc_minimal.so.4")
    assert find_allocator([first]) == str(first / "libjemalloc.so.2")
    assert find_allocator([tmp_path / "none"]) == ""


def test_a_library_that_is_named_is_taken(monkeypatch) -> None:
    """Another fix has none."""
    monkeypatch.setattr(allocator, "find_allocator", lambda: "/usr/lib/libjemalloc.so.2")

    named, found, other = (
        with_library(chosen(word)) for word in ("allocator=/own.so", "allocator", "threads=2")
    )

    assert (named.value, found.value, other.value) == ("/own.so", "/usr/lib/libjemalloc.so.2", 2)
    assert found.change == "export LD_PRELOAD=/usr/lib/libjemalloc.so.2"
