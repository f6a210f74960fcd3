"""What is read of the files that a recording names, and what never is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfprobe.errors import Missing
from tfprobe.web import code_tree
from tfprobe.web.code_tree import SourceFile, read_source


def reason(path: Path | str, **more: str) -> str:
    found = read_source(str(path), **more)
    assert isinstance(found, Missing)
    return found.reason


def test_a_source_file_is_read_with_its_lines(tmp_path: Path) -> None:
    """Lines are those of Python: a form feed ends none."""
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x0c\xff\rthree")

    found = read_source(str(tmp_path / "a.py"))

    assert isinstance(found, SourceFile)
    assert found.lines == ("one", "two\x0c\ufffd", "three")


def test_a_relative_name_lies_where_the_job_was_started(tmp_path: Path) -> None:
    """Without that it is nowhere."""
    (tmp_path / "a.py").write_text("x")

    assert isinstance(read_source("a.py", directory=str(tmp_path)), SourceFile)
    assert reason("a.py") == "the recording does not say in which directory it is"


def test_links_between_source_files_are_followed(tmp_path: Path) -> None:
    """Virtual environments are made of them."""
    (tmp_path / "real.py").write_text("x")
    (tmp_path / "link.py").symlink_to(tmp_path / "real.py")

    assert isinstance(read_source(str(tmp_path / "link.py")), SourceFile)


@pytest.mark.parametrize("name", ["/etc/passwd", "a.py\0", "key.pem", "a.pyc", "", "/", "a.PY"])
def test_only_source_files_are_read(name: str) -> None:
    """By their names already."""
    assert reason(name, directory="/") == "it is not named as a source file of Python is"


def test_a_link_makes_no_source_file_of_a_secret(tmp_path: Path) -> None:
    """Nor does a chain of them."""
    (tmp_path / "shadow").write_text("root:secret")
    (tmp_path / "b.py").symlink_to(tmp_path / "shadow")
    (tmp_path / "a.py").symlink_to(tmp_path / "b.py")

    assert (
        reason(tmp_path / "a.py") == "it is a link to something that is not named as a source file"
    )


def test_nothing_waits_for_a_pipe(tmp_path: Path) -> None:
    """Nor for a device, nor lists a directory."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()

    assert reason(tmp_path / "pipe.py") == "it is no regular file"
    assert reason(tmp_path / "folder.py") == "it is no regular file"


def test_a_loop_of_links_is_an_answer(tmp_path: Path) -> None:
    """As is a name that no file system takes."""
    (tmp_path / "a.py").symlink_to(tmp_path / "a.py")

    assert reason(tmp_path / "a.py").startswith("it cannot be read")
    assert reason(tmp_path / f"{'x' * 5000}.py").startswith("it cannot be read")
    assert reason(tmp_path / "\udcff\ud800.py").startswith("it cannot be read")


def test_a_large_file_is_left_alone(tmp_path: Path, monkeypatch) -> None:
    """No one reads two megabytes of source on a page."""
    monkeypatch.setattr(code_tree, "MOST_BYTES", 10)
    (tmp_path / "a.py").write_text("x" * 11)

    assert reason(tmp_path / "a.py").startswith("it has more than")
