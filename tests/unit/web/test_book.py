"""A few runs are open at a time, each read again only where it may have grown."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from tests.support.rundir import (
    BOOT_ID,
    HOST,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.runs.liveness import Machine
from tfprobe.web import answers
from tfprobe.web.opened import OpenRun, Reading
from tfprobe.web.params import Params
from tfprobe.web.run_cache import FRESH_S, RunCache

HERE = Machine(HOST, BOOT_ID, Path("/nonexistent"))


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reads(monkeypatch) -> list[object]:
    """Which readings were refreshed, in this order."""
    found: list[object] = []
    refresh = Reading.refresh

    def noted(self, watch=None):
        found.append(self)
        return refresh(self, watch)

    monkeypatch.setattr(Reading, "refresh", noted)
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("r1", "r2", "r3"):
        write(tmp_path / name)
    return tmp_path


def write(root: Path, steps: int = 10) -> Path:
    return write_run(root, [WrittenProcess(loops=[WrittenLoop(steps=regular_steps(steps))])])


def test_questions_at_one_moment_read_once(directory, clock, reads):
    """A page asks for several documents."""
    book = RunCache(directory, HERE, clock=clock)

    for _ in range(5):
        book.opened("r1")

    assert len(reads) == 1


def test_a_run_that_grows_is_read_again(directory, clock, reads, monkeypatch):
    """At the next question, not before a while has passed."""
    monkeypatch.setattr(Reading, "has_ended", False)
    book = RunCache(directory, HERE, clock=clock)

    for _ in range(5):
        book.opened("r1")
        clock.now_s += FRESH_S

    assert len(reads) == 5


def test_a_run_that_is_known_to_have_grown_is_read_at_once(directory, clock, reads):
    """A page that was told so asks now, and is not told again."""
    book = RunCache(directory, HERE, clock=clock)
    book.opened("r1")
    book.opened("r2")

    book.has_grown(["r1", "nonsense"])
    for _ in range(3):
        book.opened("r1")
        book.opened("r2")

    assert len(reads) == 3


def test_a_run_that_has_ended_is_read_no_more(directory, clock, reads, monkeypatch):
    """But once more a while after its end: file servers tell of changes late."""
    monkeypatch.setattr(Reading, "has_ended", True)
    book = RunCache(directory, HERE, clock=clock)

    for _ in range(1000):
        book.opened("r1")
        clock.now_s += FRESH_S

    assert len(reads) <= 5


def test_the_run_that_was_asked_for_longest_ago_is_closed(directory, clock):
    """What is open takes memory."""
    book = RunCache(directory, HERE, most=2, clock=clock)
    first, second = book.opened("r1"), book.opened("r2")

    assert book.opened("r1") is first
    book.opened("r3")

    assert book.opened("r1") is first
    assert book.opened("r2") is not second


def test_of_large_runs_two_are_open(directory, clock, monkeypatch):
    """To be compared; a third closes the one that was asked for longest ago."""
    monkeypatch.setattr(Reading, "row_count", 1_000_000)
    book = RunCache(directory, HERE, clock=clock)
    first, second = book.opened("r1"), book.opened("r2")

    assert (book.opened("r1"), book.opened("r2")) == (first, second)
    book.opened("r3")

    assert book.opened("r2") is second
    assert book.opened("r1") is not first


def test_another_run_of_the_same_name_is_opened_anew(directory, clock):
    """Removed and recorded again."""
    book = RunCache(directory, HERE, clock=clock)
    before = book.opened("r1")

    (directory / "r1").rename(directory / "old")
    write(directory / "r1", steps=20)

    assert book.opened("r1") is not before
    assert book.opened("r1").profile.loops[0].count == 20


def test_a_run_that_is_removed_is_no_run(directory, clock):
    """In a sentence."""
    book = RunCache(directory, HERE, clock=clock)
    book.opened("r1")

    shutil.rmtree(directory / "r1")

    with pytest.raises(NoAnswer, match="may have been removed"):
        book.opened("r1")


def test_a_run_that_could_not_be_read_is_tried_again(directory, clock):
    """Once whoever wrote it has removed the link."""
    book = RunCache(directory, HERE, clock=clock)
    (directory / "r1" / "out").symlink_to("/etc")
    with pytest.raises(UnreadableInput, match="leads out"):
        book.opened("r1")

    (directory / "r1" / "out").unlink()

    assert book.opened("r1").profile.run.id == "r1"


def test_runs_of_a_pair_know_each_other(directory, clock):
    """As comparing them needs."""
    run = RunCache(directory, HERE, clock=clock).opened("r1")

    assert run.sibling is not None
    assert run.sibling("r2").profile.run.id == "r2"


def test_reading_one_run_keeps_nobody_from_another(directory, clock, monkeypatch):
    """However long it takes."""
    book = RunCache(directory, HERE, clock=clock)
    is_at_it, may_go_on = threading.Event(), threading.Event()
    refresh = Reading.refresh

    def slow(self, watch=None):
        if isinstance(self, OpenRun) and self.folder.id == "r1":
            is_at_it.set()
            assert may_go_on.wait(60)
        return refresh(self, watch)

    monkeypatch.setattr(Reading, "refresh", slow)
    reading = threading.Thread(target=lambda: book.opened("r1"))
    reading.start()
    assert is_at_it.wait(60)

    other = book.opened("r2")
    early = book.answer("r1", min(answers.EARLY), Params())
    may_go_on.set()
    reading.join(60)

    assert other.profile.run.id == "r2"
    assert early
