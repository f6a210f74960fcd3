"""Runs of several hosts become one: copied, nothing changed, nothing twice, nothing half."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.machines import machine
from tests.support.rundir import (
    LAYOUT,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.errors import NoAnswer, UnreadableInput, UsageError
from tfprobe.runs import directory_tree
from tfprobe.runs.catalogue import find_run, glance
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.merge_plan import Plan, plan
from tfprobe.runs.merging import alone, merge


def _process(rank: int, host: str = "node7", pid: int = 4711, **facts: Any) -> WrittenProcess:
    place = {"source": "PMI", "index": rank, "world": 2, "role": "worker"}
    manifest = {"rank": place, "boot_id": f"boot-{host}", **facts}
    loops = [WrittenLoop(steps=regular_steps(10), sampled=[3])]
    captures = {"000003-session_run-0.run_metadata.pb": b"bytes of rank %d" % rank}
    return WrittenProcess(
        pid, host, loops, {LAYOUT.STATE_WORD: LAYOUT.FINISHED}, manifest, captures=captures
    )


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """A run of each of two hosts."""
    return [
        write_run(
            tmp_path / f"from-{host}" / "r1",
            [_process(rank, host, 4711 + rank)],
            manifest={"host": host, "pid": 4711 + rank, "started_unix_ns": UNIX_NS - rank},
        )
        for rank, host in enumerate(("a", "b"))
    ]


def _merge(tmp_path: Path, *directories: Path, into: str = "all") -> Plan:
    with alone(tmp_path / into):
        chosen = plan(directories, tmp_path / into, machine(tmp_path))
        merge(chosen, lambda _done, _all: None)
    return chosen


def _content(root: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files
    }


def test_a_merged_run_holds_the_processes_unchanged(tmp_path, hosts) -> None:
    """Every byte and the time of every file."""
    _merge(tmp_path, *hosts)

    for host, run in zip("ab", hosts, strict=True):
        assert _content(tmp_path / "all" / host) == _content(run / host)
    assert glance(RunFolder(tmp_path / "all"), machine(tmp_path)).steps == 20


def test_directories_of_runs_are_merged_as_a_whole(tmp_path, hosts) -> None:
    """What was fetched from each host into a directory of its own."""
    chosen = _merge(tmp_path, *(run.parent for run in hosts))

    assert [source.folder.root for source in chosen.sources] == hosts


def test_the_merged_run_is_that_of_the_launch_that_was_first(tmp_path, hosts) -> None:
    """Every launch stays known, and the runs by name."""
    _merge(tmp_path, *hosts)

    run = RunFolder(tmp_path / "all")
    manifest = json.loads(run.manifest.read_text())
    assert (manifest["id"], manifest["host"], manifest["merged"]) == ("all", "b", ["r1"])
    hosts_of = {json.loads(path.read_text())["host"] for path in run.launches.iterdir()}
    assert hosts_of == {"a", "b"}
    assert find_run("all", tmp_path).root == run.root.resolve()


def test_the_copy_is_independent_and_private(tmp_path, hosts) -> None:
    """Nothing is shared with the original; directories are 0700 and files 0600."""
    _merge(tmp_path, *hosts)

    paths = [tmp_path / "all", *(tmp_path / "all").rglob("*")]
    assert {(p.is_dir(), p.stat().st_mode & 0o777) for p in paths} == {
        (True, 0o700),
        (False, 0o600),
    }
    assert all(path.stat().st_nlink == 1 for path in paths if path.is_file())


def test_a_sparse_file_stays_sparse(tmp_path) -> None:
    """steps.bin has room for 256 works, and mostly holes."""
    root = write_run(tmp_path / "r1", [_process(0)])
    (steps,) = root.glob("*/*/steps.bin")
    os.truncate(steps, 1 << 30)

    _merge(tmp_path, root)

    (copy,) = (tmp_path / "all").glob("*/*/steps.bin")
    assert copy.stat().st_size == 1 << 30
    assert copy.stat().st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_holes_cannot_be_told_all_is_copied(tmp_path, hosts, monkeypatch, number) -> None:
    """Some file systems of networks and of user space know of no holes."""
    _refuse_to_tell_holes(monkeypatch, number)

    _merge(tmp_path, *hosts)

    for host, run in zip("ab", hosts, strict=True):
        assert _content(tmp_path / "all" / host) == _content(run / host)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_what_cannot_be_read_does_not_become_zeros(tmp_path, hosts, monkeypatch, number) -> None:
    """A disk that fails is no hole, and the one that failed is named."""
    _refuse_to_tell_holes(monkeypatch, number)

    with pytest.raises(UnreadableInput, match=re.escape(os.strerror(number))) as refused:
        _merge(tmp_path, *hosts)
    assert str(hosts[0]) in str(refused.value)
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("call", ["listdir", "open"])
def test_a_run_that_cannot_be_read_now_is_not_merged_in_part(
    tmp_path, hosts, monkeypatch, call, number
) -> None:
    """What a failing disk hides is not what is absent."""
    original = getattr(os, call)

    def fail(path, *rest, **options):
        name = os.fspath(path) if isinstance(path, str | os.PathLike) else ""
        if str(name).endswith(("/b", "interpreters.tsv")):
            raise OSError(number, os.strerror(number), name)
        return original(path, *rest, **options)

    (hosts[1] / "boot" / "interpreters.tsv").write_text("b\t1\t1\t3.11.7\tpython\n")
    monkeypatch.setattr(os, call, fail)

    with pytest.raises(UnreadableInput, match=re.escape(os.strerror(number))):
        _merge(tmp_path, *hosts)
    assert not (tmp_path / "all").exists()


def _refuse_to_tell_holes(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def seek(_descriptor: int, _at: int, _how: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(directory_tree.os, "lseek", seek)


def test_one_process_in_two_runs_is_copied_once(tmp_path, hosts) -> None:
    """The larger copy of the two, and it is said."""
    twice = write_run(tmp_path / "twice", [_process(0, "a", 4711), _process(1, "b", 4712)])
    (grown,) = twice.glob("a/*/events.jsonl")
    grown.write_text("x" * 1000)

    chosen = _merge(tmp_path, *hosts, twice)

    assert len(chosen.parts) == 2
    assert sum("one process" in note for note in chosen.notes) == 2
    assert (tmp_path / "all" / "a" / grown.parent.name / "events.jsonl").read_text() == "x" * 1000


def test_hosts_of_equal_names_are_both_kept(tmp_path) -> None:
    """Two machines called localhost, the same pid in the same millisecond."""
    first = write_run(tmp_path / "r1", [_process(0, "localhost", boot_id="one")])
    other = write_run(tmp_path / "r2", [_process(1, "localhost", boot_id="two")])

    chosen = _merge(tmp_path, first, other)

    names = sorted(path.name for path in (tmp_path / "all" / "localhost").iterdir())
    assert names == [f"4711-{UNIX_NS // 10**6}", f"4711-{UNIX_NS // 10**6}-2"]
    assert any("Two hosts are called localhost" in note for note in chosen.notes)


def test_two_processes_that_claim_a_rank_are_told(tmp_path) -> None:
    """Both are kept; a child that inherited its rank is no second claim."""
    first = write_run(tmp_path / "r1", [_process(0, "a"), _process(0, "a", 99, ppid=4711)])
    other = write_run(tmp_path / "r2", [_process(0, "b")])

    chosen = _merge(tmp_path, first, other)

    (note,) = chosen.notes
    assert note.startswith("2 processes say that they are worker 0: ")
    assert len(chosen.parts) == 3


def test_a_merged_run_can_be_extended(tmp_path, hosts) -> None:
    """Host by host as they come; what is there already stays."""
    _merge(tmp_path, hosts[0])
    chosen = _merge(tmp_path, *hosts)

    assert (chosen.extends, len(chosen.parts)) == (True, 1)
    entry = glance(RunFolder(tmp_path / "all"), machine(tmp_path))
    assert len(entry.processes) == 2
    assert len(entry.launches) == 2


def test_merging_again_changes_nothing(tmp_path, hosts) -> None:
    """Not even where the target is among the directories."""
    _merge(tmp_path, *hosts)
    before = _content(tmp_path / "all")

    _merge(tmp_path, *hosts, tmp_path / "all")

    after = _content(tmp_path / "all")
    assert {name: content for name, (content, _) in after.items()} == {
        name: content for name, (content, _) in before.items()
    }


def test_another_command_that_fails_takes_nothing_from_this_one(tmp_path, hosts) -> None:
    """Both copy the same process into one run, where there are no locks; the other is killed."""
    _merge(tmp_path, hosts[0])
    ours, other = (plan(hosts, tmp_path / "all", machine(tmp_path)) for _ in range(2))

    def interrupted(_done: int, _all: int) -> None:
        raise KeyboardInterrupt

    def meanwhile(_done: int, _all: int) -> None:
        with pytest.raises(KeyboardInterrupt):
            merge(other, interrupted)

    merge(ours, meanwhile)

    assert _content(tmp_path / "all" / "b") == _content(hosts[1] / "b")


def test_a_copy_that_was_taken_away_is_not_begun_anew(tmp_path) -> None:
    """Half of a process would be taken for all of it."""
    root = write_run(tmp_path / "r1", [_process(0)])
    target = tmp_path / "copy"

    with pytest.raises(FileNotFoundError):
        directory_tree.copy_tree(root, target, lambda _size: shutil.rmtree(target))
    assert not target.exists()


def test_commands_that_extend_a_run_at_once_lose_nothing_of_each_other(tmp_path, hosts) -> None:
    """The second waits for the first, and plans only then."""
    _merge(tmp_path, hosts[0])
    more = [
        write_run(tmp_path / name, [_process(i, name, i)], interpreters=[f"{name}\t1\t2\t3\tpy"])
        for i, name in enumerate(("c", "d", "e", "f"), 1)
    ]

    with ThreadPoolExecutor(len(more)) as pool:
        list(pool.map(lambda run: _merge(tmp_path, hosts[1], run), more))

    run = RunFolder(tmp_path / "all")
    assert set(json.loads(run.manifest.read_text())["merged"]) == {"r1", "c", "d", "e", "f"}
    assert len(run.interpreters.read_text().splitlines()) == 4
    assert [folder.host for folder in run.processes()] == ["a", "b", "c", "d", "e", "f"]


def test_a_file_system_without_locks_is_merged_into_without(tmp_path, hosts, monkeypatch) -> None:
    """NFS locks no directory."""

    def refuse(_descriptor: int, _how: int) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)

    _merge(tmp_path, hosts[0])
    _merge(tmp_path, hosts[1])

    assert len(RunFolder(tmp_path / "all").processes()) == 2


@pytest.mark.parametrize("what", ["run", "directory", "file"])
def test_a_place_that_is_taken_is_refused(tmp_path, hosts, what) -> None:
    """Only a run that was merged is extended."""
    taken = tmp_path / "all"
    if what == "run":
        write_run(taken)
    elif what == "directory":
        taken.mkdir()
    else:
        taken.write_text("mine")

    with pytest.raises(UsageError, match="no merged run"):
        _merge(tmp_path, *hosts)


@pytest.mark.parametrize("name", ["latest", ".tmp-x", "{host}/joined", "{host}/a/b"])
def test_a_place_where_no_command_looks_is_refused(tmp_path, hosts, name) -> None:
    """Neither a name that means another run nor the inside of a run."""
    target = tmp_path / name.format(host=hosts[0])

    with pytest.raises(UsageError, match="cannot be made"):
        plan(hosts, target, machine(tmp_path))


def test_a_running_run_is_refused(tmp_path) -> None:
    """What it will have recorded is not there yet."""
    root = write_run(tmp_path / "r1", [_process(0, pid=4711, boot_id=None)])
    (steps,) = root.glob("*/*/steps.bin")
    with steps.open("r+b") as file:
        file.seek(11 * 8)
        file.write((1).to_bytes(8, "little"))

    with pytest.raises(NoAnswer, match="is running"):
        plan([root], tmp_path / "all", machine(tmp_path, p4711=1234))


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_directory_without_runs_is_refused(tmp_path, hosts, name) -> None:
    """By name."""
    (tmp_path / "empty").mkdir()

    with pytest.raises(UnreadableInput, match=name):
        _merge(tmp_path, *hosts, tmp_path / name)
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize("after", [0, 1, 3, 7])
@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_an_interrupted_merge_leaves_nothing(tmp_path, hosts, monkeypatch, after, problem) -> None:
    """A full disk, or Ctrl-C, at whatever file."""
    copied: list[Mapping[str, Any]] = []

    def fail(reader: int, writer: int, size: int) -> None:
        copied.append({})
        if len(copied) > after:
            raise problem

    monkeypatch.setattr(directory_tree, "_copy_data", fail)

    with pytest.raises((UsageError, KeyboardInterrupt)):
        _merge(tmp_path, *hosts)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["from-a", "from-b", "proc"]


def test_links_and_pipes_in_a_run_are_not_followed(tmp_path) -> None:
    """A run that somebody sent may hold anything."""
    root = write_run(tmp_path / "r1", [_process(0)])
    (folder,) = (path.parent for path in root.glob("*/*/process.json"))
    (folder / "captures" / "secret").symlink_to("/etc/passwd")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")

    _merge(tmp_path, root)

    names = {path.name for path in (tmp_path / "all").rglob("*")}
    assert names.isdisjoint({"secret", "up", "pipe"})


def test_a_corrupt_process_is_copied_like_the_others(tmp_path) -> None:
    """What is left of it may still answer something; twice the same is once."""
    root = write_run(tmp_path / "r1", [_process(0), _process(1, "b")])
    for path in root.glob("b/*/process.json"):
        path.write_text("{")

    assert len(_merge(tmp_path, root).parts) == 2
    assert len(_merge(tmp_path, root).parts) == 0


def test_corrupt_processes_of_equal_names_are_both_kept(tmp_path) -> None:
    """Nothing says that they are one; merged once more, each is known again."""
    runs = [write_run(tmp_path / name, [_process(0)]) for name in ("r1", "r2")]
    for seconds, run in enumerate(runs):
        (folder,) = (path.parent for path in run.glob("*/*/process.json"))
        (folder / "process.json").write_text("{")
        (folder / "steps.bin").write_bytes(b"")
        os.utime(folder / "steps.bin", (seconds, seconds))

    chosen = _merge(tmp_path, *runs)

    (note,) = chosen.notes
    assert "cannot be read" in note
    assert [part.folder.root for part in chosen.parts] == [
        folder.root for run in runs for folder in RunFolder(run).processes()
    ]
    assert _merge(tmp_path, *runs).parts == ()


@pytest.mark.parametrize("merged", [5, None, "xy", [[1], "r0"]])
def test_what_names_no_merged_run_is_left_out(tmp_path, hosts, merged) -> None:
    """Whatever a run.json says of the runs that it was merged from."""
    manifest = hosts[0] / "run.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "merged": merged}))

    _merge(tmp_path, hosts[0])

    names = ["r0", "r1"] if isinstance(merged, list) else ["r1"]
    assert json.loads((tmp_path / "all" / "run.json").read_text())["merged"] == names


def test_lines_of_both_runs_are_kept_once(tmp_path) -> None:
    """Interpreters that started, and accelerators of a host."""
    runs = [
        write_run(tmp_path / name, [_process(i, name)], interpreters=[f"{name}\t1\t2\t3.11\tpy"])
        for i, name in enumerate("ab")
    ]
    for run in runs:
        (run / "machine").mkdir()
        (run / "machine" / "h.jsonl").write_text(f'{{"run": "{run.name}"}}\nhalf a li')

    _merge(tmp_path, *runs)
    _merge(tmp_path, *runs)

    merged = RunFolder(tmp_path / "all")
    assert merged.interpreters.read_text() == "a\t1\t2\t3.11\tpy\nb\t1\t2\t3.11\tpy\n"
    assert merged.machine("h").read_text() == '{"run": "a"}\n{"run": "b"}\n'
