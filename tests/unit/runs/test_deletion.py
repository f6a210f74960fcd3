"""A tree is deleted without following links, and what stands in the way is told."""

from __future__ import annotations

import os

import pytest

from tfprobe.runs.directory_tree import DEEPEST, delete


def test_what_is_not_there_is_no_problem(tmp_path):
    """Somebody else was faster."""
    done = delete(tmp_path / "gone")

    assert (done.freed_bytes, done.problem) == (0, None)


def test_a_link_is_deleted_and_not_what_it_leads_to(tmp_path):
    """Also where the tree itself is one."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "kept")

    done = delete(tmp_path / "link")

    assert done.problem is None
    assert sorted(os.listdir(tmp_path)) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["file"]


def test_a_tree_deeper_than_ours_is_left_and_told(tmp_path):
    """Nobody runs out of descriptors or stack by it."""
    path = tmp_path / "tree"
    path.joinpath(*["d"] * (DEEPEST + 5)).mkdir(parents=True)

    done = delete(path)

    assert done.problem is not None
    assert "deeper than anything of ours" in done.problem
    assert path.exists()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_what_may_not_be_deleted_is_told_and_the_rest_goes(tmp_path):
    """A directory that nobody may write keeps its files."""
    closed = tmp_path / "tree" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    (tmp_path / "tree" / "open").touch()
    closed.chmod(0o500)

    done = delete(tmp_path / "tree")

    closed.chmod(0o700)
    assert done.problem == "file cannot be deleted: Permission denied"
    assert os.listdir(tmp_path / "tree") == ["closed"]
