"""Tables of captures are kept in files as long as they are true, and else made anew."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.asked_tables import answered, asked, opened, sampled_process, window
from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import WrittenProcess, write_run
from tfprobe.profile.profile import Profile
from tfprobe.query.process_pool import Died, LocalProcesses
from tfprobe.query.shards import Shard
from tfprobe.query.tables import capture_cache, captured, loader
from tfprobe.query.tables.captured import CaptureFiles
from tfprobe.runs import liveness

COUNT = "select count(*) from executions"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one finished process with six executions, asked once."""
    run = write_run(tmp_path / "run", [sampled_process()])
    assert asked(COUNT, run)[1] == [(6,)]
    return run


def _file(run: Path) -> Path:
    (found,) = run.glob("derived/tables/*/*8000.parquet")
    return found


def _forbid_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(shard: Shard) -> None:
        raise AssertionError(shard)

    monkeypatch.setattr(capture_cache, "load_shard", refuse)


def test_captures_are_decoded_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question is answered from the files."""
    _forbid_decoding(monkeypatch)

    assert asked(COUNT, run)[1] == [(6,)]
    assert asked("select count(*) from captures", run)[1] == [(2,)]
    assert asked("select count(*) from allocations", run)[1] == [(4,)]
    assert asked("select count(*) from problems", run)[1] == [(0,)]


def test_a_question_about_steps_decodes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not touch captures leaves them alone, and nothing behind."""
    run = write_run(tmp_path / "run", [sampled_process()])
    _forbid_decoding(monkeypatch)

    query = "with executions as (select 1 as a) select count(*) from steps, works, executions"

    assert asked(query, run)[1] == [(20,)]
    assert asked("describe executions", run)[1]
    assert not (run / "derived").exists()


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\0" * 4096, b"PAR1 is not all of it PAR1"])
def test_a_damaged_file_is_made_anew(run: Path, content: bytes) -> None:
    """Whatever lies there, the answer is the recording's."""
    _file(run).write_bytes(content)

    assert asked(COUNT, run)[1] == [(6,)]
    assert _file(run).stat().st_size > 100


def test_a_half_written_file_is_made_anew(run: Path) -> None:
    """A file that a full disk has cut is no answer."""
    whole = _file(run).read_bytes()
    _file(run).write_bytes(whole[: len(whole) // 2])

    assert asked(COUNT, run)[1] == [(6,)]
    assert len(_file(run).read_bytes()) == len(whole)


def test_a_file_of_somebody_else_is_made_anew(run: Path) -> None:
    """A Parquet file that tells nothing of itself is none of ours."""
    with opened(run) as tables:
        tables.connection.sql("select 1 as executions").write_parquet(str(_file(run)))

    assert asked(COUNT, run)[1] == [(6,)]


def test_a_damaged_page_is_made_anew(run: Path) -> None:
    """A file whose head and end are whole, and whose rows are not, is found out by the question."""
    content = bytearray(_file(run).read_bytes())
    content[60:900] = bytes(255 - each for each in content[60:900])
    _file(run).write_bytes(content)

    _, rows = asked("select name, sum(duration_ns), max(lane) from executions group by 1", run)

    assert len(rows) == 3


def test_another_capture_makes_the_file_stale(run: Path) -> None:
    """What was added, changed or removed is in the next answer."""
    (capture, _) = sorted(run.glob("*/*/captures/*.pb"))

    capture.unlink()

    assert asked(COUNT, run)[1] == [(3,)]


def test_a_missing_side_file_is_made_anew(run: Path) -> None:
    """Allocations are there also when only their file was deleted."""
    (side,) = run.glob("derived/tables/*/*.allocations.parquet")
    side.unlink()

    assert asked("select count(*) from allocations", run)[1] == [(4,)]


def test_a_link_is_not_followed(run: Path, tmp_path: Path) -> None:
    """Neither a way to elsewhere nor a pipe without an end is taken for a file of ours."""
    _file(run).rename(tmp_path / "elsewhere")
    place = next(run.glob("derived/tables/*")) / "4711-1795205058000.parquet"
    place.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()

    assert asked(COUNT, run)[1] == [(6,)]
    assert (place.is_symlink(), (tmp_path / "elsewhere").read_bytes()) == (False, before)

    place.unlink()
    os.mkfifo(place)

    assert asked(COUNT, run)[1] == [(6,)]


def test_what_cannot_be_kept_is_answered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of somebody else, or on a disk that is full or read only, is answered."""
    run = write_run(tmp_path / "run", [sampled_process()])
    (run / "derived").write_text("in the way")

    assert asked(COUNT, run)[1] == [(6,)]
    assert (run / "derived").read_text() == "in the way"


def test_a_process_that_runs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is of the moment, and the next one is anew."""
    run = write_run(tmp_path / "run", [sampled_process()])
    monkeypatch.setattr("tfprobe.runs.liveness.process_state", lambda *_: liveness.RUNNING)

    assert asked(COUNT, run)[1] == [(6,)]
    assert list(run.glob("derived/tables/*/*.parquet")) == []


def test_files_are_private_and_whole(run: Path) -> None:
    """Like all of a run directory; nothing temporary is left."""
    modes = {path.stat().st_mode & 0o777 for path in run.glob("derived/tables/*/*")}

    assert modes == {0o600}
    assert [path.name for path in run.glob("derived/tables/*/.*")] == []


@pytest.mark.parametrize("host", ["a'b", 'c"d', "e*[f]?", "g h=i", "ü\n", os.fsdecode(b"j\xff")])
def test_hosts_may_be_called_anything(tmp_path: Path, host: str) -> None:
    """Names of hosts and runs are neither patterns nor SQL."""
    processes = [sampled_process(host=host), sampled_process(host="eZf")]
    run = write_run(tmp_path / f"run {host}", processes)

    for _ in range(2):
        with opened(run) as tables:
            _, rows = answered(tables, "select process, count(*) from executions group by 1")
        assert sorted(rows) == [(0, 6), (1, 6)]


def test_ops_may_be_called_anything(tmp_path: Path) -> None:
    """Names come out of the files as they went in."""
    names = ["a'b", 'c"d', "e\0f", "g\nh", "\N{SNOWMAN}", "-- drop table", "", "x" * 70_000]
    content = run_metadata({CPU: [Node(name, at) for at, name in enumerate(names)]})
    process = WrittenProcess(captures={"000003-session_run-0.run_metadata.pb": content})
    run = write_run(tmp_path / "run", [process])

    _, rows = asked("select name from executions order by start_ns", run)

    assert [name or "" for (name,) in rows] == names


@pytest.mark.slow
def test_whoever_reads_the_rows_are_the_same(tmp_path: Path) -> None:
    """Two processes of this machine write what one writes."""
    processes = [sampled_process(rank=rank, pid=100 + rank) for rank in range(3)]
    runs = [write_run(tmp_path / name / "run", processes) for name in ("one", "two")]

    with opened(runs[0]) as tables:
        _, alone = answered(tables, "select * from executions order by all")
    with opened(runs[1], choose=lambda _shards, _bytes: LocalProcesses(2)) as tables:
        _, together = answered(tables, "select * from executions order by all")

    assert len(alone) == 18
    assert together == alone


def test_kinds_of_captures_may_be_mixed(tmp_path: Path) -> None:
    """One process has a RunMetadata and an XSpace: each tells what it tells."""
    process = sampled_process(captures=1)
    process.captures = {**process.captures, "000009-fit-1.xplane.pb": window()}
    run = write_run(tmp_path / "run", [process])

    _, rows = asked("select capture, count(*), count(bytes) from executions group by 1", run)

    assert sorted(rows) == [(0, 3, 3), (1, 2, 0)]


def _put_directory(run: Path) -> None:
    _file(run).unlink()
    _file_place(run).mkdir()


def _put_file(run: Path) -> None:
    host = _file_place(run).parent
    shutil.rmtree(host)
    host.write_text("in the way")


def _file_place(run: Path) -> Path:
    return run / "derived" / "tables" / "node7" / "4711-1795205058000.parquet"


@pytest.mark.parametrize("put", [_put_directory, _put_file])
def test_what_is_in_the_way_of_a_file_costs_no_rows(run: Path, put: Callable[[Path], None]) -> None:
    """The rows lie in the temporary directory then, and nobody's file is touched."""
    put(run)
    before = sorted(run.glob("derived/tables/**/4711-1795205058000.parquet"))

    with opened(run) as tables:
        _, rows = answered(tables, COUNT)
        problems = tables.problems

    assert (rows, problems) == ([(6,)], ())
    assert sorted(run.glob("derived/tables/**/4711-1795205058000.parquet")) == before


def test_a_full_disk_costs_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into the run is written into the temporary directory."""
    run = write_run(tmp_path / "run", [sampled_process()])
    write = captured.write

    def full(
        profile: Profile, fingerprint: str, files: Mapping[str, Path], programs: Any
    ) -> CaptureFiles:
        if run in files["executions"].parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(profile, fingerprint, files, programs)

    monkeypatch.setattr(captured, "write", full)

    assert asked("select count(*) from allocations", run)[1] == [(4,)]


def test_a_process_whose_captures_cannot_be_read_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table `problems` says which process is not in the answer, and why."""
    processes = [sampled_process(pid=pid) for pid in (100, 101)]
    run = write_run(tmp_path / "run", processes)
    load = capture_cache.load_shard

    def refuse(shard: Shard) -> Profile:
        if shard.folder.startswith("101-"):
            raise OSError(errno.EIO, "Input/output error")
        return load(shard)

    monkeypatch.setattr(capture_cache, "load_shard", refuse)

    with opened(run) as tables:
        _, rows = answered(tables, "select run, process, part, what from problems")
        told = [(each.where, each.what) for each in tables.problems]

    where, what = f"node7/{_folder(101)}", "This process is not in the answer: Input/output error."
    assert rows == [("run", 1, where, what)]
    assert told == [(where, what)]


def test_a_process_without_its_files_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what lost it was asked after the table `problems`."""
    run = write_run(tmp_path / "run", [sampled_process()])
    monkeypatch.setattr(loader, "load_without_captures", lambda _: Died("It was killed."))

    with opened(run) as tables:
        assert answered(tables, "select count(*) from problems")[1] == [(0,)]
        assert answered(tables, "select count(*) from works")[1] == [(0,)]
        _, rows = answered(tables, "select process, what from problems")

    assert rows == [(0, "This process is not in the answer: It was killed.")]


def _folder(pid: int) -> str:
    return f"{pid}-1795205058000"


def test_two_that_write_at_once_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two containers they have one process number, and files of their own all the same."""
    run = write_run(tmp_path / "run", [sampled_process()])
    made = []
    copy = captured._copy

    def write(query: str, unfinished: Path, told: CaptureFiles) -> None:
        made.append(unfinished)
        copy(query, unfinished, told)

    monkeypatch.setattr(captured, "_copy", write)

    for _ in range(2):
        shutil.rmtree(run / "derived", ignore_errors=True)
        asked(COUNT, run)

    assert len(set(made)) == len(made) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"captures": [[0]]},
        {"captures": [["x"] * 11]},
        {"captures": [[0.5] * 11]},
        {"captures": [7]},
        {"captures": None},
        {"rank": float("inf")},
        {"rank": [0]},
        {"counts": {"executions": float("inf"), "spans": 0, "allocations": 0}},
        "[" * 200_000,
        b"\xff",
    ],
)
def test_a_file_that_tells_nonsense_is_made_anew(
    run: Path, wrong: dict[str, object] | str | bytes
) -> None:
    """The fingerprint alone, which anybody may write, makes no answer of a file."""
    _tell(_file(run), wrong)

    assert asked("select count(*), sum(executions) from captures", run)[1] == [(2, 6)]


def _tell(path: Path, wrong: dict[str, object] | str | bytes) -> None:
    """Let a file tell something else of itself; its rows stay."""
    connection = duckdb.connect()
    of_file = f"parquet_kv_metadata('{path}')"
    ((told,),) = connection.execute(f"select value from {of_file}").fetchall()
    value = json.dumps(json.loads(told) | wrong) if isinstance(wrong, dict) else wrong
    connection.execute(f"create table held as from read_parquet('{path}')")
    path.unlink()
    connection.execute(f"copy held to '{path}' (kv_metadata {{tfprobe: $1}})", [value])


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link in the place of `derived` leads who knows where."""
    run = write_run(tmp_path / "run", [sampled_process()])
    (tmp_path / "elsewhere").mkdir()
    (run / "derived").symlink_to(tmp_path / "elsewhere")

    assert asked(COUNT, run)[1] == [(6,)]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_that_is_removed_stays_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question is answered, and leaves no directory behind."""
    run = write_run(tmp_path / "run", [sampled_process()])
    load = capture_cache.load_shard

    def remove(shard: Shard) -> Profile:
        profile = load(shard)
        shutil.rmtree(run)
        return profile

    monkeypatch.setattr(capture_cache, "load_shard", remove)

    assert asked(COUNT, run)[1] == [(6,)]
    assert not run.exists()
