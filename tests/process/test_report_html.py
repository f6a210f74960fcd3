"""`tfprobe report --html FILE` as a person runs it: a whole file, or one paragraph and none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.process.launching import Ending, Launcher
from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

OLD = "the report of yesterday"


@pytest.fixture
def report(launcher: Launcher):
    """Report a run of 30 steps with these arguments."""
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30))], header={LAYOUT.STATE_WORD: LAYOUT.FINISHED}
    )
    write_run(launcher.output / "r1", [process])

    def call(*arguments: str | Path) -> Ending:
        return launcher.tfprobe("report", "-o", launcher.output, *arguments)

    return call


def test_it_writes_one_file_and_says_where(report, launcher):
    """The file alone, no temporary one beside it."""
    ended = report("--html", "pages.html")

    text = (launcher.work / "pages.html").read_text()
    assert (ended.status, ended.stderr) == (0, b"")
    assert ended.lines()[0] == "pages.html"
    assert text.startswith("<!doctype html>")
    assert "run/r1/overview" in text
    assert [path.name for path in launcher.work.iterdir()] == ["pages.html"]


def test_the_document_is_all_that_json_prints(report, launcher):
    """--json and --html go together, as --json and --md do."""
    ended = report("--html", "pages.html", "--md", "report.md", "--json")

    assert ended.status == 0
    assert ended.stdout.startswith(b"{")
    assert ended.stdout.rstrip().endswith(b"}")
    assert sorted(path.name for path in launcher.work.iterdir()) == ["pages.html", "report.md"]


def test_a_silent_run_has_pages_too(report, launcher):
    """The status is 1, as of the report in the terminal."""
    write_run(launcher.output / "r2")

    assert report("r2", "--html", "pages.html").status == 1
    assert (launcher.work / "pages.html").exists()


def test_pages_replace_those_that_were_there_and_a_link_stays(report, launcher):
    """Whoever opens the file meanwhile sees the old one or the new one, whole."""
    (launcher.work / "old.html").write_text(OLD)
    (launcher.work / "link.html").symlink_to("old.html")

    assert report("--html", "link.html").status == 0
    assert (launcher.work / "link.html").is_symlink()
    assert (launcher.work / "old.html").read_text().startswith("<!doctype html>")


def test_they_can_go_through_a_pipe(report, launcher):
    """What is no file stays what it is."""
    ended = report("--html", "/dev/stdout")

    assert ended.status == 0
    assert ended.stdout.startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no/such/place.html", "No such file or directory"),
        (".", "Is a directory"),
        ("/", "Is a directory"),
        ("", "Is a directory"),
        ("/dev/full", "No space left on device"),
        ("/proc/pages.html", "No such file or directory"),
        ("x" * 300, "File name too long"),
    ],
)
def test_a_place_that_takes_nothing_is_one_paragraph(report, launcher, path, words):
    """The status is 2; nothing is left there."""
    ended = report("--html", path)

    assert ended.status == 2
    assert ended.stderr.decode() == f"tfprobe: {path or '``'} cannot be written: {words}.\n"
    assert list(launcher.work.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_of_others_is_one_paragraph(report, launcher):
    """What was there stays."""
    place = launcher.work / "closed"
    place.mkdir()
    (place / "pages.html").write_text(OLD)
    place.chmod(0o500)

    ended = report("--html", "closed/pages.html")

    assert ended.status == 2
    assert b"Permission denied" in ended.stderr
    assert (place / "pages.html").read_text() == OLD


def test_a_full_disk_leaves_what_was_there(report, launcher):
    """The old file is whole, and no part of the new one lies beside it."""
    (launcher.work / "pages.html").write_text(OLD)
    limited = ["sh", "-c", 'ulimit -f 100; trap "" XFSZ; exec "$@"', "sh"]

    ended = launcher.bare(
        *limited, launcher.program, "report", "-o", launcher.output, "--html", "pages.html"
    )

    assert (ended.status, b"File too large" in ended.stderr) == (2, True)
    assert (launcher.work / "pages.html").read_text() == OLD
    assert [path.name for path in launcher.work.iterdir()] == ["pages.html"]


@pytest.mark.parametrize("flag", ["--html", "--md"])
def test_pages_do_not_follow(report, flag):
    """A file is written once."""
    ended = report("--follow", flag, "x")

    assert ended.status == 2
    assert f"{flag} and --follow cannot be combined.".encode() in ended.stderr
