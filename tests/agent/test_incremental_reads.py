"""Reading steps.bin again and again gives the same as reading it whole."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.agent import load
from tfprobe.profile.profile import Durations, Loop, RecentSteps
from tfprobe.runs.process_folder.steps import StepsFile, StepsReader, read_steps

steps_file, layout = load("core.steps_file"), load("core.steps_layout")
START_NS = 7_000_000_000_000
KEPT = 100
FLAGS = (0, 0, 0, layout.TRACED_FLAG, layout.RAISED_FLAG)


class Writer:
    """The agent's own file, with steps whose times come from a seed."""

    def __init__(self, path: Path, seed: int, loops: int = 1) -> None:
        self.path = path
        self._dice = random.Random(seed)
        self._file = steps_file.StepsFile(str(path), START_NS)
        self._now_ns = START_NS
        self._loops = [self.add_work() for _ in range(loops)]

    def add_work(self):
        name = f"work {self._file.used}"
        return self._file.add_loop("fit", name, "MainThread", 77, self._now_ns)

    def step(self, count: int, loop: int = 0) -> None:
        dice, record = self._dice, self._loops[loop].record
        for _ in range(count):
            start_ns = self._now_ns + dice.randrange(10**6)
            self._now_ns = start_ns + int(2 ** dice.uniform(0, 30))
            record(start_ns, self._now_ns, dice.choice(FLAGS))


def _facts(aggregate: Durations) -> tuple[object, ...]:
    bounds = (aggregate.count, aggregate.sum_ns, aggregate.min_ns, aggregate.max_ns)
    return (*bounds, aggregate.buckets.tolist())


def _rows(recent: RecentSteps, last: int) -> list[object]:
    columns = (recent.start_ns, recent.end_ns, recent.sampled, recent.raised)
    return [
        recent.first_step + len(recent.end_ns),
        *(column[-last:].tolist() for column in columns),
    ]


def _known(file: StepsFile) -> list[object]:
    return [(_loop(loop), _rows(loop.recent, KEPT)) for loop in file.loops]


def _loop(loop: Loop) -> tuple[object, ...]:
    counts = (loop.name, loop.executed, loop.raised, loop.sampled)
    return (*counts, _facts(loop.times), _facts(loop.gaps))


@pytest.fixture(scope="module")
def number() -> list[int]:
    """Numbers for files: hypothesis writes many into one directory."""
    return list(range(100_000))


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 10**6),
    turns=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.sampled_from([0, 1, 2, KEPT, 700, 1023, 1024, 1025, 2500, 8191, 8192, 9000]),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_reading_again_gives_what_a_new_reader_reads(tmp_path, number, seed, turns):
    """Counts, sums, extremes, histograms and the latest steps, whatever came between two reads."""
    writer = Writer(tmp_path / f"{number.pop()}.bin", seed, loops=2)
    reader = StepsReader(writer.path, keep_steps=KEPT)
    again, anew = [], []

    for loop, count in turns:
        writer.step(count, loop)
        again.append(_known(reader.read()))
        anew.append(_known(read_steps(writer.path)))

    assert again == anew


def test_without_new_steps_only_the_first_words_are_read(tmp_path, monkeypatch):
    """Of an idle process a read takes the header and 128 bytes per loop."""
    writer = Writer(tmp_path / "steps.bin", 1, loops=3)
    writer.step(5000)
    reader = StepsReader(writer.path)
    reader.read()
    sizes: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda d, n, at: sizes.append(n) or pread(d, n, at))

    reader.read()

    assert sizes == [4096, 128, 128, 128]


def test_for_a_new_step_only_its_row_is_read(tmp_path, monkeypatch):
    """Neither the slot, unless it has changed, nor the known steps are read again."""
    writer = Writer(tmp_path / "steps.bin", 1)
    writer.step(5000)
    reader = StepsReader(writer.path)
    reader.read()
    writer.step(3)
    sizes: list[int] = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda d, n, at: sizes.append(n) or pread(d, n, at))

    (record,) = reader.read().loops

    assert record.executed == 5003
    # header, first words, fold count, the last known row and three, and the count again
    assert sizes == [4096, 128, 8, 4 * 16, 8]


def test_a_loop_that_comes_later_is_read(tmp_path):
    """A job that begins to evaluate has one more loop."""
    writer = Writer(tmp_path / "steps.bin", 1)
    reader = StepsReader(writer.path)
    before = [loop.name for loop in reader.read().loops]

    writer.add_work()

    after = [loop.name for loop in reader.read().loops]
    assert (before, after) == (["work 0"], ["work 0", "work 1"])


def test_another_file_at_the_path_is_read_from_its_start(tmp_path):
    """A reader does not add the steps of one process to those of another."""
    path = tmp_path / "steps.bin"
    Writer(path, 1).step(3000)
    reader = StepsReader(path)
    reader.read()
    os.rename(path, tmp_path / "old.bin")
    Writer(path, 2).step(10)

    again = reader.read()

    assert _known(again) == _known(read_steps(path))
    assert np.array([loop.executed for loop in again.loops]).tolist() == [10]


def test_a_file_with_fewer_steps_than_before_is_read_anew(tmp_path):
    """If the file is overwritten in place, a reader returns what is there now."""
    path = tmp_path / "steps.bin"
    Writer(path, 1).step(3000)
    longer = path.read_bytes()
    path.unlink()
    Writer(path, 1).step(200)
    shorter = path.read_bytes()
    reader = StepsReader(path, keep_steps=KEPT)
    path.write_bytes(longer)
    reader.read()

    path.write_bytes(shorter)

    assert _known(reader.read()) == _known(read_steps(path))
