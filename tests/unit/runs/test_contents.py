"""Reading whole files of a recording: see store.contents."""

import os

import pytest

from tfprobe.errors import UnreadableInput
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.manifests import read_run
from tfprobe.runs.safe_files import content_of, foresee


def test_a_file_is_returned_whole(tmp_path):
    """Up to its very last byte."""
    (tmp_path / "file").write_bytes(b"12345")

    assert content_of(tmp_path / "file", most_bytes=5) == b"12345"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_holds_nobody(tmp_path, make):
    """A pipe would be waited for, and a device has no end."""
    make(tmp_path / "odd")

    with pytest.raises(OSError, match="regular file"):
        content_of(tmp_path / "odd")


def test_a_file_longer_than_any_of_ours_is_not_read(tmp_path):
    """A file of nothing takes no room on a disk, and all of the memory."""
    path = tmp_path / "long"
    with path.open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(OSError, match="more than"):
        content_of(path)
    with pytest.raises(UnreadableInput, match="more than 16,000,000 bytes"):
        read_run(path)


@pytest.mark.parametrize("name", ["with\0nothing", "half a \ud800", "x" * 10_000])
def test_a_name_that_no_file_can_have_is_not_there(tmp_path, name):
    """Recordings name graphs; what they say is a stranger's."""
    with pytest.raises(OSError, match=r"name"):
        content_of(tmp_path / name)


@pytest.mark.parametrize("name", ["../../../other/secret", "/home/other/secret"])
def test_the_name_of_a_graph_leads_nowhere(tmp_path, name):
    """It stands in events.jsonl, and another directory is not of the run."""
    folder = ProcessFolder(tmp_path)

    paths = (folder.graph(name), folder.optimized_graph(name), folder.code_map(name))

    assert [tmp_path / "graphs"] * 2 + [tmp_path / "code"] == [path.parent for path in paths]


@pytest.fixture
def descriptors(monkeypatch):
    """Those that are opened, less those that are closed."""
    held = set()
    opened, closed = os.open, os.close

    def note(*arguments):
        held.add(descriptor := opened(*arguments))
        return descriptor

    def forget(descriptor):
        held.remove(descriptor)
        closed(descriptor)

    monkeypatch.setattr(os, "open", note)
    monkeypatch.setattr(os, "close", forget)
    return held


def test_a_file_that_is_foreseen_is_asked_for(tmp_path, monkeypatch, descriptors):
    """The system reads its beginning, and no descriptor of it stays open."""
    asked = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *request: asked.append(request))
    (tmp_path / "file").write_bytes(b"12345")

    foresee(tmp_path / "file")

    [(_, first, _, wish)] = asked
    assert (first, wish) == (0, os.POSIX_FADV_WILLNEED)
    assert descriptors == set()


@pytest.mark.parametrize("name", ["pipe", "absent", "with\0nothing", "half a \ud800"])
def test_what_cannot_be_foreseen_holds_nobody(tmp_path, name, descriptors):
    """Who reads it tells what is wrong."""
    os.mkfifo(tmp_path / "pipe")

    foresee(tmp_path / name)

    assert descriptors == set()
