"""An error that a disk answers at any call is told in a paragraph, and is no bug in tfprobe."""

from __future__ import annotations

import errno
import os

import pytest

from tfprobe.cli import main as program


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT])
def test_a_disk_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, capsys, number: int) -> None:
    """Whatever was looked at then."""

    def fail(_: object) -> int:
        raise OSError(number, os.strerror(number), "/mnt/runs/r1")

    monkeypatch.setattr(program, "_dispatch", fail)

    status = program.main(["report", "/mnt/runs/r1"])

    said = capsys.readouterr().err
    assert status == 3
    assert said.startswith(f"tfprobe: /mnt/runs/r1 cannot be used: {os.strerror(number)}.")
    assert "bug" not in said


def test_another_error_of_the_system_is_a_bug(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """What we should have answered ourselves stays one to report."""

    def fail(_: object) -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "x")

    monkeypatch.setattr(program, "_dispatch", fail)

    assert program.main(["report"]) == 1
    assert capsys.readouterr().err.endswith("This is a bug in tfprobe.\n")
