"""`tfprobe ls --trend`: the runs of one job over time, compared with the one before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import MONO_NS, WrittenLoop, WrittenProcess, write_run
from tfprobe.cli.main import main


def _write(runs: Path, at: int, step_us: int, **manifest: Any) -> None:
    """Write a run with gaps of 300 µs; without steps where `step_us` is 0."""
    times, at_ns = [], MONO_NS
    for step in range(200 if step_us else 0):
        end_ns = at_ns + step_us * 1000 + step % 7 * 1000
        times.append((at_ns, end_ns))
        at_ns = end_ns + 300_000
    loop = WrittenLoop(kind="session_run", steps=times)
    started = {"started": f"2026-11-20T20:{at:02}:00+00:00"}
    write_run(
        runs / f"r{at}",
        [WrittenProcess(loops=[loop] if step_us else [])],
        manifest=started | manifest,
    )


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Five runs of a job, one without steps and the last one slower, and one of another job."""
    for at, step_us in enumerate((1000, 1002, 0, 1001, 1400)):
        _write(tmp_path, at, step_us, name="night")
    _write(tmp_path, 9, 1000, command=["python", "other.py"], started="2026-11-19T20:00:00+00:00")
    return tmp_path


def _document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    status = main(["ls", *map(str, arguments), "--trend", "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (status, document["schema"]) == (0, "tfprobe.trend/1")
    return document


def test_the_job_that_ran_last_is_shown(runs, capsys):
    """Oldest first, each compared with the run before it that has steps."""
    document = _document(capsys, runs)

    rows = document["runs"]
    assert [row["id"] for row in rows] == ["r0", "r1", "r2", "r3", "r4"]
    assert document["other_jobs"] == 1
    assert rows[3]["step_p50_us"] == pytest.approx(1004)
    assert (rows[3]["work"], rows[3]["tensorflow"]) == ("session_run loss,train_op", "2.21.0")
    assert rows[0]["change"] == {"missing": "the job has no earlier run with steps"}
    assert rows[2]["change"] == {"missing": "no process was recorded"}
    assert (rows[3]["change"]["significant"], rows[3]["change"]["cause"]) == (False, None)
    change = rows[4]["change"]
    assert (change["significant"], change["cause"]) == (True, "program")
    assert change["ratio"] == pytest.approx(0.4, abs=0.01)
    assert rows[2]["goodput_ratio"] is None
    assert all(0 < rows[at]["goodput_ratio"] <= 1 for at in (0, 1, 3, 4))


def test_filters_and_the_limit_choose(runs, capsys):
    """Another job by its command, and the newest runs of one."""
    assert [row["id"] for row in _document(capsys, runs, "--command", "other")["runs"]] == ["r9"]
    newest = _document(capsys, runs, "--name", "night", "--limit", 2)["runs"]
    assert [row["id"] for row in newest] == ["r3", "r4"]


def test_the_page_is_a_table(runs, capsys):
    """A line a run, what is chance marked, and whose doing the rest is."""
    status = main(["ls", str(runs), "--trend"])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert lines[0] == "night: python train.py --epochs 3"
    assert ["~−0.1 %" in line for line in lines[2:7]] == [False, False, False, True, False]
    assert "program" in lines[6]
    assert lines[-1] == "and 1 more job: choose with --name, --tag or --command"


def test_a_damaged_run_is_a_row(runs, capsys):
    """What cannot be read is compared with nothing, and the others are."""
    for path in (runs / "r3").rglob("steps.bin"):
        path.write_bytes(b"no steps")

    rows = _document(capsys, runs)["runs"]

    assert "missing" in rows[3]["change"]
    assert rows[4]["change"]["cause"] == "program"


def test_sizes_are_for_the_listing(runs, capsys):
    """Status 2 and one line."""
    assert main(["ls", str(runs), "--trend", "--size"]) == 2
    assert "--size and --trend cannot be combined" in capsys.readouterr().err
