"""`tfprobe rm` and `tfprobe gc`: what they say, ask and refuse, and that nothing else goes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import LAYOUT, MONO_WORD, UNIX_WORD, WrittenProcess, write_run
from tfprobe.cli.main import main
from tfprobe.runs.liveness import this_machine
from tfprobe.runs.proc import started_ticks

HOUR_NS = 3600 * 10**9
# Above the largest pid that Linux gives (2^22).
NOBODY = 2**22 + 1


def _write(runs: Path, name: str, *, hours: int, has_ended: bool = True, **facts: Any) -> Path:
    """Write a run of this machine that began, and maybe ended, so many hours ago."""
    here = this_machine()
    unix_ns = time.time_ns() - hours * HOUR_NS
    place = {"host": here.host, "boot_id": here.boot_id, "pid_namespace": here.pid_namespace}
    facts = {**place, "pid": NOBODY, "pid_started_ticks": 5, **facts}
    clocks = {UNIX_WORD: time.time_ns(), MONO_WORD: time.monotonic_ns()}
    process = WrittenProcess(
        pid=facts["pid"],
        host=facts["host"],
        header={**clocks, LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: unix_ns}
        if has_ended
        else clocks,
        manifest=facts,
    )
    return write_run(runs / name, [process], manifest={**facts, "started_unix_ns": unix_ns})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three runs that have ended, one that is running, and one of another machine."""
    folder, ours = tmp_path / "runs", os.getpid()
    for hours, name in enumerate(("new", "middle", "old"), 1):
        _write(folder, name, hours=hours)
    alive = {"pid": ours, "pid_started_ticks": started_ticks(ours)}
    _write(folder, "live", hours=9, has_ended=False, **alive)
    _write(folder, "remote", hours=10, has_ended=False, host="elsewhere")
    return folder


def _left(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def _call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main([*map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_runs_are_removed_by_id_and_directory(runs, capsys) -> None:
    """And it is said how much that freed."""
    status, out, err = _call(capsys, "rm", "-o", runs, "new", runs / "old", "new", "--yes")

    assert (status, err) == (0, "")
    assert out.startswith("Removed 2 runs, ")
    assert out.endswith(" freed.\n")
    assert _left(runs) == ["live", "middle", "remote"]


def test_without_a_terminal_nothing_goes_unless_told(runs, capsys) -> None:
    """Nobody can be asked: status 2, and what to say."""
    for command in (("rm", runs / "new"), ("gc", runs, "--keep", 1)):
        status, _, err = _call(capsys, *command)

        assert (status, "--yes" in err, "--dry-run" in err) == (2, True, True)
    assert _left(runs) == ["live", "middle", "new", "old", "remote"]


@pytest.mark.parametrize(
    ("named", "flags", "why"),
    [
        ("live", (), "live is running"),
        ("live", ("--force",), "live is running"),
        ("remote", (), "Use --force to remove it anyway"),
    ],
)
def test_one_that_may_not_go_keeps_all(runs, capsys, named, flags, why) -> None:
    """All that were named go, or none of them."""
    status, _, err = _call(capsys, "rm", runs / "new", runs / named, "--yes", *flags)

    assert (status, len(err.splitlines())) == (1, 1)
    assert "Nothing was removed" in err
    assert why in err
    assert len(_left(runs)) == 5


def test_force_removes_what_nobody_here_can_tell(runs, capsys) -> None:
    """Its owner may know that it ended."""
    status, _, _ = _call(capsys, "rm", runs / "remote", "--yes", "--force")

    assert (status, "remote" in _left(runs)) == (0, False)


@pytest.mark.parametrize(
    ("named", "status"), [("missing", 3), (".", 3), ("new/run.json", 3), ("latest", 1)]
)
def test_what_is_no_run_is_refused(runs, capsys, monkeypatch, named, status) -> None:
    """Also a directory of runs, whose latest other commands take."""
    monkeypatch.chdir(runs)

    ended, _, err = _call(capsys, "rm", "-o", runs, "old", named, "--yes")

    assert (ended, len(err.splitlines())) == (status, 1)
    assert len(_left(runs)) == 5


def test_a_dry_run_lists_and_removes_nothing(runs, capsys) -> None:
    """Without a question, so that it works in a script."""
    removed = _call(capsys, "rm", runs / "old", "--dry-run")
    collected = _call(capsys, "gc", runs, "--keep", "1", "--older", "150m", "--dry-run")

    assert "Would remove old" in removed[1]
    assert "not among the newest 1, older than 2 h" in collected[1]
    assert "is running" in collected[1]
    assert (removed[0], collected[0]) == (0, 0)
    assert len(_left(runs)) == 5


def test_gc_keeps_the_newest_and_what_is_held(runs, capsys) -> None:
    """A running one stays, one of another machine needs --force, and both are told."""
    status, out, err = _call(capsys, "gc", runs, "--keep", 2, "--yes")

    assert (status, err) == (0, "")
    assert _left(runs) == ["live", "middle", "new", "remote"]
    assert "is running" in out
    assert "cannot be looked up here: elsewhere/" in out
    assert out.splitlines()[-1].startswith("Removed 1 run, ")

    _call(capsys, "gc", runs, "--keep", 2, "--yes", "--force")

    assert _left(runs) == ["live", "middle", "new"]


def test_gc_by_size_counts_what_stays(runs, capsys) -> None:
    """The oldest go first, until all together fit; what is held counts."""
    main(["ls", str(runs), "--size", "--json"])
    sizes = [run["size_bytes"] for run in json.loads(capsys.readouterr().out)["runs"]]

    status, _, _ = _call(capsys, "gc", runs, "--size", f"{sum(sizes) - 1}B", "--yes")

    assert (status, _left(runs)) == (0, ["live", "middle", "new", "remote"])


def test_gc_takes_what_killed_programs_left(runs, capsys) -> None:
    """Half-removed runs go without any rule."""
    os.rename(runs / "old", runs / ".removing-abcdef-old")

    status, out, _ = _call(capsys, "gc", runs, "--yes")

    assert (status, _left(runs)) == (0, ["live", "middle", "new", "remote"])
    assert "1 leftover" in out


def test_gc_with_nothing_to_do_says_so(runs, capsys) -> None:
    """Status 0, and no question, so that it may run every night."""
    ruled = _call(capsys, "gc", runs, "--keep", 9)
    bare = _call(capsys, "gc", runs)
    empty = _call(capsys, "gc", "-o", runs / "nowhere", "--keep", 9)

    assert ruled == (0, "Nothing to remove.\n", "")
    assert bare[1].startswith("Nothing to remove: no rule was given")
    assert empty == (0, "Nothing to remove.\n", "")


def test_documents_tell_what_went_and_what_stayed(runs, capsys) -> None:
    """One JSON document of each, dry or not."""
    dry = json.loads(_call(capsys, "gc", runs, "--keep", 2, "--dry-run", "--json")[1])
    done = json.loads(_call(capsys, "gc", runs, "--keep", 2, "--yes", "--json")[1])
    removed = json.loads(_call(capsys, "rm", runs / "new", "--yes", "--json")[1])

    assert [(run["id"], run["rules"]) for run in dry["would_remove"]] == [("old", ["keep"])]
    assert dry["would_remove"][0]["size_bytes"] > 0
    assert [run["id"] for run in done["removed"]] == ["old"]
    assert {(run["id"], run["state"]) for run in done["held"]} == {
        ("live", "running"),
        ("remote", "unknown"),
    }
    assert done["rules"] == {"keep": 2, "older_ns": None, "size_bytes": None}
    assert (done["schema"], removed["schema"]) == ("tfprobe.gc/1", "tfprobe.rm/1")
    assert removed["freed_bytes"] == removed["removed"][0]["freed_bytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--keep", "0"), 2),
        (("--keep", "-1"), 2),
        (("--keep", "many"), 2),
        (("--older", "-1d"), 2),
        (("--older", "9999999w"), 2),
        (("--older", "0s"), 2),
        (("--size", "5X"), 2),
        (("--size", "0M"), 2),
        (("new",), 2),
        (("new/run.json",), 3),
        (("missing",), 3),
    ],
)
def test_gc_refuses_what_is_no_rule_or_no_directory(
    runs, capsys, monkeypatch, arguments, status
) -> None:
    """One line, and nothing is removed: also for a run, and for no runs at all to keep."""
    monkeypatch.chdir(runs)

    ended, _, err = _call(capsys, "gc", "-o", runs, *arguments, "--yes")

    assert (ended, len(err.splitlines())) == (status, 1)
    assert len(_left(runs)) == 5


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("command", [("rm", "old"), ("gc", "--keep", "1")])
def test_a_directory_that_may_not_be_written_is_told(runs, capsys, command) -> None:
    """Status 2, before anything is asked or touched."""
    runs.chmod(0o500)

    status, _, err = _call(capsys, *command, "-o", runs, "--yes")

    runs.chmod(0o700)
    assert (status, "may not be written" in err) == (2, True)
    assert len(_left(runs)) == 5
