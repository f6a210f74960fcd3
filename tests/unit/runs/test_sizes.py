"""A run's size is what it occupies on disk."""

from __future__ import annotations

import os

from tfprobe.runs.directory_tree import disk_bytes

MIB = 1 << 20


def test_a_size_is_what_is_allocated(tmp_path):
    """A sparse file counts as far as it has blocks, a file with two names once, a link not."""
    root = tmp_path / "run"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "data").write_bytes(b"x" * MIB)
    os.link(root / "deep" / "data", root / "again")
    with open(root / "sparse", "wb") as file:
        file.truncate(100 * MIB)
    (tmp_path / "elsewhere").write_bytes(b"x" * 8 * MIB)
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root)

    size = disk_bytes(root)

    assert MIB <= size < 2 * MIB


def test_what_is_not_there_has_no_size(tmp_path):
    """A run that vanished meanwhile occupies nothing."""
    assert disk_bytes(tmp_path / "gone") == 0
