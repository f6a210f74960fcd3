"""The page of code: calls by line, files, and the lines of one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.op_runs import Ran, RunOfOps
from tfprobe.errors import UsageError

LIBRARY = "/usr/lib/python3/site-packages/keras/layer.py"
RUN = (
    Ran("a", us=30, trace=(("/job/train.py", 9), (LIBRARY, 100))),
    Ran("b", us=10, trace=(("/job/train.py", 9), ("/job/model.py", 3))),
    Ran("c", us=5),
)


def test_calls_are_a_tree_of_lines() -> None:
    """Each place knows its file and line, and the number by which it is asked for."""
    found = RunOfOps(*RUN).ask("code")

    places = found["places"]
    assert places["name"] == ["", "train.py:9:f", "layer.py:100:f", "model.py:3:f"]
    assert places["time_ns"] == [40_000, 40_000, 30_000, 10_000]
    assert places["line"] == [None, 9, 100, 3]
    assert found["unplaced_ns"] == 5_000


def test_libraries_can_be_left_out() -> None:
    """What they made is then made by the line that called them."""
    places = RunOfOps(*RUN).ask("code", frames="job")["places"]

    assert places["name"] == ["", "train.py:9:f", "model.py:3:f"]
    assert places["own_time_ns"] == [0, 30_000, 10_000]


def test_a_place_is_asked_for_by_its_number() -> None:
    """And tells the way to it."""
    run = RunOfOps(*RUN)
    number = run.ask("code")["places"]["number"][1]

    found = run.ask("code", at=number)

    assert [each["name"] for each in found["above"]] == ["", "train.py:9:f"]
    with pytest.raises(UsageError):
        run.ask("code", at=99)


def test_lines_of_the_job_pay_for_libraries() -> None:
    """Own are those of the nearest line that its author wrote; files of the job come first."""
    found = RunOfOps(*RUN).ask("code")

    assert [(each["path"], each["own_time_ns"]) for each in found["files"]] == [
        ("/job/train.py", 30_000),
        ("/job/model.py", 10_000),
        (LIBRARY, 0),
    ]
    assert [(each["line"], each["time_ns"]) for each in found["lines"]] == [
        (9, 40_000),
        (3, 10_000),
        (100, 30_000),
    ]


def test_a_line_that_calls_itself_pays_once() -> None:
    """However deep."""
    run = RunOfOps(Ran("a", us=10, trace=(("/job/r.py", 1),) * 5000))

    (line,) = run.ask("code")["lines"]

    assert line["time_ns"] == 10_000


def test_without_a_code_map_there_is_no_code() -> None:
    """And the page says what to do."""
    found = RunOfOps(Ran("a")).ask("code")

    assert "which code made these ops" in found["nothing"]
    assert (found["work"], len(found["works"])) == (0, 1)


def test_the_lines_of_a_file_stand_beside_what_they_cost(tmp_path: Path) -> None:
    """Read where the recording names it."""
    file = tmp_path / "train.py"
    file.write_text("import tensorflow\nloss = model(x)\n")
    run = RunOfOps(Ran("a", us=10, trace=((str(file), 2),)))

    found = run.ask("source", file=0)

    assert found["lines"] == ["import tensorflow", "loss = model(x)", ""]
    assert [(each["line"], each["time_ns"]) for each in found["costs"]] == [(2, 10_000)]
    assert found["dearest_line"] == 2


def test_a_long_file_is_told_around_a_line(tmp_path: Path) -> None:
    """By default around its dearest."""
    file = tmp_path / "train.py"
    file.write_text("\n".join(f"x{at}" for at in range(1, 3001)))
    run = RunOfOps(Ran("a", trace=((str(file), 1500),)))

    found = run.ask("source")
    end = run.ask("source", line=3000)

    assert (found["first_line"], len(found["lines"])) == (1201, 600)
    assert end["lines"][-1] == "x3000"


def test_a_question_cannot_name_a_file() -> None:
    """Only a number of the run's own list."""
    run = RunOfOps(*RUN)

    for wrong in ("/etc/passwd", "../train.py", "3", "-1"):
        with pytest.raises(UsageError):
            run.ask("source", file=wrong)


def test_a_file_that_is_not_here_is_told_with_its_costs() -> None:
    """The lines are known all the same."""
    found = RunOfOps(*RUN).ask("source", file=0)

    assert found["unreadable"] == "it is not on this machine, or no longer there"
    assert found["lines"] == []
    assert [each["line"] for each in found["costs"]] == [9]
