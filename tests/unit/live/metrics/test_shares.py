"""Shares are read by a thread of their own; a scrape is answered with what it has read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tfprobe.errors import Missing
from tfprobe.live.metrics import exporter as shares_module
from tfprobe.live.metrics.exporter import TimeUseCache, is_recent
from tfprobe.profile.snapshots import LoopShares, TimeUse
from tfprobe.runs.layout import ProcessFolder

SHARES = TimeUse(LoopShares(0.25, 0.25, 0.25, 0.25, 1, 1), Missing("no account"))
NOTHING = TimeUse(Missing(""), Missing(""))
FOLDERS = tuple(ProcessFolder(Path(f"/runs/r/node7/{pid}-1")) for pid in (1, 2))


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TimeUseCache]]:
    monkeypatch.setattr(shares_module, "_BETWEEN_ROUNDS_S", 0.01)
    started: list[TimeUseCache] = []

    def begin(
        read: Callable[[ProcessFolder], TimeUse],
        is_worth_it: Callable[[ProcessFolder], bool] = lambda _folder: True,
    ) -> TimeUseCache:
        started.append(TimeUseCache(read, is_worth_it))
        started[-1].start()
        return started[-1]

    yield begin
    for each in started:
        each.stop()


def eventually(found: Callable[[], TimeUse], wanted: object) -> None:
    pause, deadline_s = threading.Event(), time.monotonic() + 60
    while found() != wanted:
        assert time.monotonic() < deadline_s, found()
        pause.wait(0.01)


def test_what_was_asked_for_is_read_soon(keep):
    """The first answer is that there is none yet."""
    keeper = keep(lambda _folder: SHARES)

    first = keeper.time_use(FOLDERS[0])

    assert isinstance(first.shares, Missing)
    eventually(lambda: keeper.time_use(FOLDERS[0]), SHARES)


def test_captures_that_cannot_be_read_keep_nobody_from_his(keep):
    """Whatever reading them raises."""

    def read(folder: ProcessFolder) -> TimeUse:
        if folder == FOLDERS[0]:
            raise ZeroDivisionError("by zero")
        return SHARES

    keeper = keep(read)
    keeper.time_use(FOLDERS[0])

    eventually(lambda: keeper.time_use(FOLDERS[1]), SHARES)
    why = Missing("its captures cannot be read: ZeroDivisionError: by zero")
    wanted = TimeUse(why, why)
    eventually(lambda: keeper.time_use(FOLDERS[0]), wanted)


def test_what_was_silent_for_long_is_not_read_and_keeps_what_is_known(keep):
    """A job that is stuck keeps its shares; runs of last month cost nothing."""
    worth = {FOLDERS[0]}
    keeper = keep(lambda _folder: SHARES, lambda folder: folder in worth)
    first = keeper.time_use(FOLDERS[1])
    eventually(lambda: keeper.time_use(FOLDERS[0]), SHARES)

    worth.clear()
    worth.add(FOLDERS[1])
    eventually(lambda: keeper.time_use(FOLDERS[1]), SHARES)

    assert isinstance(first.shares, Missing)
    assert keeper.time_use(FOLDERS[0]) == SHARES


@pytest.mark.parametrize("sign", ["pulses.jsonl", "captures", "process.json"])
def test_a_process_is_recent_by_whatever_it_wrote_last(tmp_path, sign: str):
    """Pulses while it steps, captures when it samples, its manifest when it begins."""
    long_ago_s = time.time() - 7200
    (tmp_path / "captures").mkdir()
    for name in ("pulses.jsonl", "process.json"):
        (tmp_path / name).write_text("")
    for path in tmp_path.iterdir():
        os.utime(path, (long_ago_s, long_ago_s))
    folder = ProcessFolder(tmp_path)
    before = is_recent(folder, within_s=3600)

    os.utime(tmp_path / sign)

    assert (before, is_recent(folder, within_s=3600)) == (False, True)


def test_a_folder_that_is_gone_is_not_recent(tmp_path):
    """It was removed between two looks."""
    assert is_recent(ProcessFolder(tmp_path / "gone"), within_s=3600) is False


def test_what_nobody_asks_for_any_more_is_not_read(keep, monkeypatch):
    """A run that has vanished is forgotten."""
    monkeypatch.setattr(shares_module, "_ROUNDS_REMEMBERED", 3)
    read: list[ProcessFolder] = []

    def note(folder: ProcessFolder) -> TimeUse:
        read.append(folder)
        return SHARES

    keeper = keep(note)
    keeper.time_use(FOLDERS[0])
    for _ in range(20):
        eventually(lambda: keeper.time_use(FOLDERS[1]), SHARES)
        count = len(read)
        eventually(lambda: SHARES if len(read) > count else NOTHING, SHARES)  # noqa: B023

    assert read.count(FOLDERS[0]) <= 5
