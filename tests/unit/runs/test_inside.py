"""Nothing below a directory of a stranger leads out of it, waits, or is written to in place."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from tfprobe.runs import safe_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run beside a directory that is none of its business."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("secret")
    (tmp_path / "run" / "below").mkdir(parents=True)
    (tmp_path / "run" / "below" / "file").write_text("content")
    (tmp_path / "run" / "link").symlink_to(tmp_path / "private")
    (tmp_path / "run" / "key").symlink_to(tmp_path / "private" / "key")
    return tmp_path / "run"


def test_what_lies_in_it_is_read(root: Path) -> None:
    """A file below it is read, also where a link leads to the directory itself."""
    (root.parent / "named").symlink_to(root)
    named = root.parent / "named"

    assert safe_files.content(root, root / "below" / "file") == b"content"
    assert safe_files.content(named, named / "below" / "file") == b"content"
    assert safe_files.is_file(root, root / "below" / "file")
    assert safe_files.is_directory(root, root / "below")


@pytest.mark.parametrize("name", ["key", "link/key", "pipe", "none", "below", "../private/key"])
def test_what_leads_out_of_it_is_not_read(root: Path, name: str) -> None:
    """Neither a link, nor a directory behind one, nor a pipe, which nobody waits for."""
    os.mkfifo(root / "pipe")

    with pytest.raises((OSError, ValueError)):
        safe_files.content(root, root / name)
    assert not safe_files.is_file(root, root / name)
    assert not safe_files.is_directory(root, root / "link")


@pytest.mark.parametrize("name", ["link/new", "link/new/deeper", "key/new", "../private/new"])
def test_nothing_is_written_behind_a_link(root: Path, name: str) -> None:
    """Where a link is in the way, nothing is made."""
    with pytest.raises((OSError, ValueError)):
        safe_files.write(root, root / name, b"ours")

    assert sorted(os.listdir(root.parent / "private")) == ["key"]


@pytest.mark.parametrize("kind", ["link", "dangling", "hard link", "pipe"])
def test_what_is_in_the_place_of_a_file_is_replaced(root: Path, kind: str) -> None:
    """A file that is written takes its name, whatever had it; that is never written to."""
    place, elsewhere = root / "below" / "place", root.parent / "private" / "key"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "hard link":
        os.link(elsewhere, place)
    else:
        place.symlink_to(elsewhere if kind == "link" else elsewhere.with_name("none"))

    safe_files.write(root, place, b"ours")

    assert (place.is_symlink(), place.read_bytes()) == (False, b"ours")
    assert elsewhere.read_text() == "secret"
    assert os.listdir(elsewhere.parent) == ["key"]
    assert sorted(os.listdir(place.parent)) == ["file", "place"]


def test_a_file_of_several_names_is_not_written_in_place(root: Path) -> None:
    """Its other name may be that of a file elsewhere; reading it does no harm."""
    os.link(root.parent / "private" / "key", root / "below" / "same")

    with pytest.raises(OSError, match="several names"):
        safe_files.opened(root, root / "below" / "same", os.O_RDWR)
    assert safe_files.content(root, root / "below" / "same") == b"secret"


def test_nothing_is_left_of_a_file_that_could_not_be_written(root: Path) -> None:
    """An error in the middle leaves what was there, and no half of another file."""
    with suppress(KeyError), safe_files.replacing(root / "below" / "file") as file:
        file.write(b"half")
        raise KeyError

    assert (root / "below" / "file").read_text() == "content"
    assert os.listdir(root / "below") == ["file"]


def test_a_directory_below_stays_the_one_that_was_opened(root: Path) -> None:
    """What is moved away and replaced by a link meanwhile is still the same directory."""
    with safe_files.directory(root, root / "below") as place:
        (root / "below").rename(root / "moved")
        (root / "below").symlink_to(root.parent / "private")
        (place / "new").write_text("ours")

    assert (root / "moved" / "new").read_text() == "ours"


def test_no_descriptor_is_left_open(root: Path) -> None:
    """Neither after a success nor after a refusal."""
    before = len(os.listdir("/proc/self/fd"))

    for name in ("below/file", "link/key", "key", "none"):
        safe_files.is_file(root, root / name)
        safe_files.is_directory(root, root / name)

    assert len(os.listdir("/proc/self/fd")) == before
