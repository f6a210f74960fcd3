"""Kernels that a recorded front end starts are processes of its run, and notebooks read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.notebooks.front_ends import read, started, the_run
from tests.tf.laboratory import tfprobe_json
from tfprobe.runs.process_folder.steps import read_steps

JOB = Path(__file__).with_name("jobs") / "front_end.py"
MAGIC = (
    "%load_ext tfprobe",
    "%tfprobe report",
    "%tfprobe code",
    "%tfprobe report --html page.html",
    "%tfprobe top",
    "%tfprobe report --follow",
    "%tfprobe op nothing-here",
)
# Whether tfprobe is installed says what %load_ext loads; without, the run says where it is.
NO_TFPROBE = "import importlib.util\nprint(importlib.util.find_spec('tfprobe').origin)"


class Recorded(NamedTuple):
    run: Path
    cells: dict[str, dict[str, Any]]
    all_cells: list[dict[str, Any]]
    report: dict[str, Any]


@pytest.fixture(scope="module")
def recorded(python: str, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A front end whose kernel was interrupted, read its run, and was restarted."""
    folder = tmp_path_factory.mktemp("recorded")
    answers = json.loads(started(folder, python, str(JOB), NO_TFPROBE, *MAGIC))
    run = the_run(folder)
    by_code = {answer["code"]: answer for answer in answers}
    return Recorded(run, by_code, answers, tfprobe_json("report", str(run)))


def test_a_kernel_answers_as_without_a_recording(python, recorded, tmp_path) -> None:
    """Its output, its errors, and how far an interrupted cell has come apart."""
    bare = json.loads(started(tmp_path, python, str(JOB), records=False))

    kept = [answer for answer in recorded.all_cells if answer["code"][0] not in "%"]
    kept = [answer for answer in kept if answer["code"] != NO_TFPROBE]
    assert [_without_counts(answer) for answer in kept] == list(map(_without_counts, bare))


def _without_counts(answer: dict[str, Any]) -> dict[str, Any]:
    stdout = "".join(letter for letter in answer["stdout"] if not letter.isdigit())
    return {**answer, "stdout": stdout}


def test_each_kernel_is_a_process_and_a_restarted_one_is_another(recorded) -> None:
    """The front end, which imports no framework, is none."""
    states = [process["state"] for process in recorded.report["processes"]]

    assert states == ["finished", "finished"]


def test_every_step_is_counted_also_those_before_an_interrupt(recorded) -> None:
    """By the kernels' own counters; an interrupt may come between a step and its count."""
    known = [
        int(answer["stdout"]) for answer in recorded.all_cells if answer["stdout"].strip().isdigit()
    ]

    folders = sorted(path.parent for path in recorded.run.glob("*/*/steps.bin"))
    executed = []
    for folder in sorted(folders, key=lambda folder: int(folder.name.split("-")[1])):
        loops = read_steps(folder / "steps.bin").loops
        executed.append(sum(loop.executed for loop in loops if loop.name == "train_step"))
    assert executed[0] - known[1] in (0, 1)
    assert executed[1] == known[2]
    assert known[1] > known[0] + 300  # the interrupted cell took steps


def test_the_agent_has_no_error(recorded) -> None:
    """An interrupted cell is no error, whether the agent or the job ran at that moment."""
    assert next(cell for cell in recorded.all_cells if "begun" in cell["stdout"])["error"]
    for log in recorded.run.glob("*/*/agent.log"):
        assert "error in" not in log.read_text()
    for events in recorded.run.glob("*/*/events.jsonl"):
        kinds = {json.loads(line)["event"] for line in events.read_text().splitlines()}
        assert kinds.isdisjoint(("error", "aside", "exception"))


def test_lines_of_cells_are_named_by_the_cell(recorded) -> None:
    """Not by the temporary file that IPython compiles it as; without the frames of the kernel."""
    text = read(recorded.run, "code")

    assert "cell [3]:5:train" in text
    assert "cell [2]:3:train_step" in text
    assert "ipykernel" not in text


def test_time_in_which_no_cell_runs_is_idle(recorded) -> None:
    """The user reads, or writes the next cell: no advice is due."""
    account = recorded.report["account"]
    (idle,) = [part for part in account["parts"] if part["part"] == "idle"]
    (item,) = [item for item in idle["of"] if item["what"] == "no cell runs"]

    assert item["us"] >= 1_500_000
    assert "no cell runs" not in json.dumps(tfprobe_json("advise", str(recorded.run)))


def test_a_notebook_reads_the_run_of_its_kernel(recorded) -> None:
    """While the kernel runs, with the numbers of its cells."""
    report = recorded.cells["%tfprobe report"]

    assert report["error"] is None
    assert report["stderr"] == ""
    assert recorded.run.name in report["stdout"]
    assert "running" in report["stdout"]
    assert "cell [3]:5:train" in recorded.cells["%tfprobe code"]["stdout"]


def test_tfprobe_need_not_be_installed_in_the_environment_of_the_kernel(recorded) -> None:
    """The recording supplies a module of that name, which knows where tfprobe is installed."""
    assert recorded.cells[NO_TFPROBE]["stdout"] == "supplied by the recording\n"
    assert recorded.cells["%load_ext tfprobe"]["error"] is None


def test_a_page_is_shown_in_the_notebook(recorded) -> None:
    """And written to the file, as in the shell."""
    cell = recorded.cells["%tfprobe report --html page.html"]

    assert cell["html"]
    assert (recorded.run.parents[1] / "page.html").stat().st_size > 100_000


def test_commands_that_a_cell_cannot_run_say_so(recorded) -> None:
    """What needs a terminal, or waits for the kernel that runs the cell."""
    assert "needs a terminal" in recorded.cells["%tfprobe top"]["stderr"]
    assert "end of this kernel" in recorded.cells["%tfprobe report --follow"]["stderr"]


def test_a_wrong_command_says_what_the_shell_would(recorded) -> None:
    """On stderr, without a traceback."""
    cell = recorded.cells["%tfprobe op nothing-here"]

    assert cell["error"] is None
    assert "'nothing-here' is neither" in cell["stderr"]
