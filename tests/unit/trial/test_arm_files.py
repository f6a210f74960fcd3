"""What an arm left is read as the agent writes it, and damaged files are missing with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tfprobe.analysis.compare.trials import Losses, Weights
from tfprobe.errors import Missing
from tfprobe.runs.layout import RunFolder
from tfprobe.trial.arm_files import ArmFiles, read_arm

HEAD = {"unit": {"kind": "fit", "name": "model"}, "started_mono_ns": 5}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the one process of a run."""
    process = tmp_path / "run" / "host" / "1-1"
    process.mkdir(parents=True)
    (process / "process.json").write_text("{}")
    return process


def write(folder: Path, *lines: dict[str, object], name: str = "trial.jsonl") -> None:
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def mark(at: int) -> dict[str, object]:
    return {"mono_ns": 10 * at, "cpu_ns": 5 * at, "units": at}


def read(folder: Path) -> ArmFiles | Missing:
    return read_arm(RunFolder(folder.parents[1]))


def known(folder: Path) -> ArmFiles:
    found = read(folder)
    assert isinstance(found, ArmFiles)
    return found


def test_marks_are_columns(folder) -> None:
    """With the unit that was counted."""
    write(folder, HEAD, mark(1), mark(2), {"stopped": "seconds"})

    found = known(folder)

    assert found.unit == ("fit", "model")
    assert found.start_mono_ns == 5
    assert found.marks.units.tolist() == [1, 2]


def test_marks_of_another_unit_are_left_out(folder) -> None:
    """A job may choose what it counts while it warms up: the last choice holds."""
    other = {"unit": {"kind": "function", "name": "init"}, "started_mono_ns": 5}
    write(folder, other, mark(1), HEAD, mark(3), mark(4))

    found = known(folder)

    assert found.unit == ("fit", "model")
    assert found.marks.units.tolist() == [3, 4]


def test_a_line_that_was_cut_is_left_out(folder) -> None:
    """A process that was killed left half of one."""
    write(folder, HEAD, mark(1))
    with (folder / "trial.jsonl").open("a") as file:
        file.write('{"mono_ns": 20, "cp')

    assert known(folder).marks.units.tolist() == [1]


def test_what_made_a_fix_fail_is_a_reason(folder) -> None:
    """It was not applied because of it."""
    note = {"event": "fix", "fix": "cache", "applied": 0, "skipped": {}, "error": "no memory"}
    write(folder, note, name="events.jsonl")
    write(folder, HEAD, mark(1))

    assert known(folder).fixes["cache"].skipped == {"no memory": 1}


def test_the_last_note_of_a_fix_counts(folder) -> None:
    """The first one is written at its first application."""
    note = {"event": "fix", "fix": "prefetch", "file": "train.py", "line": 7}
    write(
        folder,
        {**note, "applied": 1, "skipped": {}},
        {**note, "applied": 3, "skipped": {"prefetches already": 2}},
        name="events.jsonl",
    )
    write(folder, HEAD, mark(1))

    fix = known(folder).fixes["prefetch"]

    assert fix.applied == 3
    assert fix.skipped == {"prefetches already": 2}
    assert fix.source == "train.py:7"


def test_weights_have_digests_and_values(folder) -> None:
    """In the order in which they were made."""
    write(folder, HEAD, mark(1))
    arrays = [{"name": "w", "sha1": "aa"}, {"name": "b", "sha1": "bb"}]
    (folder / "weights.json").write_text(json.dumps({"unit": 16, "arrays": arrays}))
    np.array([1.0, 2.0]).astype("<f8").tofile(folder / "weights.bin")

    weights = known(folder).weights

    assert isinstance(weights, Weights)
    assert weights.digests == ("aa", "bb")
    assert weights.values is not None
    assert weights.values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "ended before"),
        ("{", "cannot be read"),
        ('{"missing": "NumPy is not imported"}', "NumPy is not imported"),
        ('{"unit": 16, "arrays": []}', "no weights"),
        ('{"unit": 16}', "cannot be read"),
        ('{"unit": 16, "arrays": [{"name": "w"}]}', "cannot be read"),
        ("[1]", "cannot be read"),
    ],
)
def test_weights_that_are_not_there_have_a_reason(folder, content, why) -> None:
    """Nothing is compared with nothing."""
    write(folder, HEAD, mark(1))
    if content is not None:
        (folder / "weights.json").write_text(content)

    weights = known(folder).weights

    assert isinstance(weights, Missing)
    assert why in weights.reason


def test_a_job_without_steps_is_missing(folder) -> None:
    """It may not be Python at all."""
    found = read(folder)

    assert isinstance(found, Missing)
    assert "no process of the job ran a step" in found.reason


def test_delays_are_those_of_all_processes(folder) -> None:
    """Workers make the input; they count no steps."""
    worker = folder.parent / "2-1"
    worker.mkdir()
    (worker / "process.json").write_text("{}")
    line = {"part": "input", "mono_ns": 10, "calls": 1, "part_ns": 4, "delay_ns": 2}
    write(folder, HEAD, mark(1))
    for each in (folder, worker):
        write(
            each, line, {**line, "mono_ns": 20, "delay_ns": 3}, {"part": "x"}, name="delays.jsonl"
        )

    found = known(folder).delays

    assert [one.delay_ns.tolist() for one in found["input"]] == [[2, 3], [2, 3]]


def test_losses_are_read_by_unit(folder) -> None:
    """Those that are no numbers of JSON, too."""
    write(folder, HEAD, mark(1))
    (folder / "losses.json").write_text('{"losses": [[1, 0.5], [2, NaN]]}')

    found = known(folder).losses

    assert isinstance(found, Losses)
    assert found.of_unit[1] == 0.5
    assert np.isnan(found.of_unit[2])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"missing": "no step has given a scalar loss"}', "no step"),
        ('{"losses": []}', "no losses were found"),
        ('{"losses": [[1]]}', "cannot be read"),
        ("[]", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_losses_that_are_not_there_say_why(folder, text, why) -> None:
    """Damaged files, too."""
    write(folder, HEAD, mark(1))
    (folder / "losses.json").write_text(text)

    found = known(folder).losses

    assert isinstance(found, Missing)
    assert why in found.reason
