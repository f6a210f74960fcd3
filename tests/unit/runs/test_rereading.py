"""Small files and directories are read again when they have changed, and only then."""

from __future__ import annotations

import os

import pytest

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.process_folder.file_cache import SETTLED_S, Listing, Reread


class Reader:
    """Reads a file as text and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, path):
        self.count += 1
        try:
            return path.read_text()
        except OSError as exc:
            raise UnreadableInput(f"{path} cannot be read") from exc


def test_a_file_is_read_once_while_it_stays(tmp_path):
    """A manifest does not change while a process runs."""
    path, reader = tmp_path / "file", Reader()
    path.write_text("one")
    again = Reread(path, reader)

    values = [again.value() for _ in range(3)]

    assert (values, reader.count) == (["one"] * 3, 1)


def test_a_file_that_comes_later_or_is_replaced_is_read(tmp_path):
    """First absent, then there, then another, then gone."""
    path, other = tmp_path / "file", tmp_path / "other"
    again, values = Reread(path, Reader()), []
    values.append(again.value())
    path.write_text("one")
    values.append(again.value())
    other.write_text("another")
    os.replace(other, path)
    values.append(again.value())
    path.unlink()
    values.append(again.value())

    assert [isinstance(value, Missing) for value in values] == [True, False, False, True]
    assert values[1:3] == ["one", "another"]


def test_a_directory_is_listed_until_it_has_settled(tmp_path, monkeypatch):
    """A change within the tick of its time, or one a file server tells late, is not overlooked."""
    listed: list[object] = []
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(path) or listdir(path))
    listing = Listing(tmp_path)

    for now_s in (0.0, 1.0, SETTLED_S, SETTLED_S + 1, SETTLED_S + 2):
        listing.names(now_s)

    assert len(listed) == 3


def test_what_comes_into_a_settled_directory_is_seen(tmp_path):
    """Its time changes."""
    listing = Listing(tmp_path)
    before = [listing.names(now_s) for now_s in (0.0, SETTLED_S)]
    os.utime(tmp_path, (1, 1))

    (tmp_path / "new").touch()

    assert (before, listing.names(SETTLED_S + 1)) == ([(), ()], ("new",))


def test_what_is_no_directory_has_no_names(tmp_path):
    """A file, and nothing at all."""
    (tmp_path / "file").touch()

    assert Listing(tmp_path / "file").names(0) == ()
    assert Listing(tmp_path / "absent").names(0) == ()


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_closed_directory_says_so(tmp_path):
    """Its names are not known, which is not the same as none."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)

    names = Listing(closed).names(0)

    assert isinstance(names, Missing)
    assert "Permission denied" in names.reason
