"""`tfprobe merge`: what it says, and that other commands read what it makes."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import (
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli.main import main
from tfprobe.runs import merge_plan
from tfprobe.runs.merge_plan import Plan


def _write(place: Path, rank: int) -> Path:
    facts = {
        "rank": {"source": "TF_CONFIG", "index": rank, "world": 2, "role": "worker"},
        "boot_id": f"b{rank}",
    }
    loops = [WrittenLoop(steps=regular_steps(10))]
    process = WrittenProcess(
        100 + rank,
        f"node{rank}",
        loops,
        {LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS},
        facts,
    )
    return write_run(place, [process], manifest={"host": f"node{rank}", "pid": 100 + rank})


def test_a_merged_run_is_reported_as_one(tmp_path, capsys) -> None:
    """Two hosts, two ranks, one answer."""
    runs = [_write(tmp_path / f"host{rank}" / "r", rank) for rank in range(2)]

    status = main(["merge", *map(str, runs), "-o", str(tmp_path / "all")])
    said = capsys.readouterr()
    reported = main(["report", str(tmp_path / "all"), "--json"])
    document = json.loads(capsys.readouterr().out)

    assert (status, reported, said.err) == (0, 0, "")
    assert said.out == f"2 processes of 2 runs in {tmp_path / 'all'}\n"
    assert [process["rank"] for process in document["processes"]] == [0, 1]
    assert document["run"]["state"] == "finished"


def test_merging_says_in_json_what_was_copied(tmp_path, capsys) -> None:
    """Each process with where it came from and what it is called now."""
    run = _write(tmp_path / "r", 0)

    main(["merge", str(run), "-o", str(tmp_path / "all"), "--json"])

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tfprobe.merge/1"
    assert (document["runs"], document["extended"], document["notes"]) == (["r"], False, [])
    (process,) = document["processes"]
    assert (tmp_path / "all" / process["host"] / process["folder"] / "process.json").is_file()


def test_what_cannot_be_merged_is_told_in_one_paragraph(tmp_path, capsys) -> None:
    """With the status that says why."""
    run = _write(tmp_path / "r", 0)

    answers = [
        (main(["merge", str(tmp_path / "none"), "-o", str(tmp_path / "all")]), 3),
        (main(["merge", str(run), "-o", str(run)]), 2),
        (main(["merge", "-o", str(tmp_path / "all")]), 2),
        (main(["merge", str(run)]), 2),
    ]

    said = capsys.readouterr()
    assert [got for got, _ in answers] == [expected for _, expected in answers]
    assert "Traceback" not in said.err
    assert said.out == ""


def test_a_merged_run_is_removed_like_any_other(tmp_path, capsys) -> None:
    """Its records of launches make no run inside a run."""
    run = _write(tmp_path / "runs" / "run", 0)
    main(["merge", str(run), "-o", str(tmp_path / "runs" / "all")])

    status = main(["rm", "-o", str(tmp_path / "runs"), "all", "--yes", "--force"])

    assert status == 0, capsys.readouterr().err
    assert not (tmp_path / "runs" / "all").exists()


def test_others_are_kept_out_before_it_is_planned(tmp_path, monkeypatch) -> None:
    """What is there already would be something else by the time of the copy."""
    main(["merge", str(_write(tmp_path / "r0", 0)), "-o", str(tmp_path / "all")])
    plan = merge_plan.plan
    seen: list[Any] = []

    def planned(*facts: Any) -> Plan:
        descriptor = os.open(tmp_path / "all", os.O_RDONLY)
        try:
            with pytest.raises(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)
        seen.append(facts)
        return plan(*facts)

    monkeypatch.setattr(merge_plan, "plan", planned)

    assert main(["merge", str(_write(tmp_path / "r1", 1)), "-o", str(tmp_path / "all")]) == 0
    assert len(seen) == 1


def test_of_very_many_notes_the_first_are_shown(tmp_path, capsys) -> None:
    """A thousand processes that are there already do not fill the screen."""
    processes = [WrittenProcess(pid) for pid in range(1, 31)]
    run = write_run(tmp_path / "r", processes)
    main(["merge", str(run), "-o", str(tmp_path / "all")])
    capsys.readouterr()

    main(["merge", str(run), "-o", str(tmp_path / "all")])

    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "tfprobe: 10 more notes; --json has all of them."
