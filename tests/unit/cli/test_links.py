"""No command follows a link in a run directory: neither to copy what it leads to, nor to write."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli.main import main
from tfprobe.errors import UnreadableInput
from tfprobe.live.process_request import EventTail, RequestEvents
from tfprobe.runs.trace_requests import request_samples

SECRET = json.dumps({"secret": "of somebody else"}) + "\n"
STEP = "000002-session_run-0.run_metadata.pb"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one process with one capture."""
    sample = {"event": "sample", "work": 0, "step": 2, "capture": STEP, "level": "full"}
    times = {"start_ns": MONO_NS, "end_ns": MONO_NS + 10**6, "graph": None}
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2])],
        events=[{**sample, **times}],
        captures={STEP: run_metadata({CPU: [Node("MatMul", 10, 400)]})},
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    return write_run(tmp_path / "run", [process])


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A directory of the user which is none of a run's business."""
    place = tmp_path / "private"
    (place / "tables" / "node7").mkdir(parents=True)
    for name in ("key.jsonl", "key.json", "timeline.json", "tables/runs.parquet"):
        (place / name).write_text(SECRET)
    return place


def _state(place: Path) -> dict[str, str]:
    """All that lies in a directory."""
    return {
        str(path.relative_to(place)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else ""
        for path in place.rglob("*")
    }


def _texts(place: Path) -> str:
    return "".join(path.read_text("latin-1") for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("link", "to"),
    [
        ("machine/node7.jsonl", "key.jsonl"),
        ("machine", ""),
        ("launches", ""),
        ("launches/x.json", "key.json"),
        ("run.json", "key.json"),
        ("boot/interpreters.tsv", "key.jsonl"),
        ("boot", ""),
        ("node7/PROCESS/events.jsonl", "key.jsonl"),
        ("node7/PROCESS/captures", ""),
        ("node7/PROCESS", "stolen"),
        ("node7", "host"),
    ],
)
@pytest.mark.parametrize("command", ["merge", "push"])
def test_what_a_link_leads_to_is_not_copied(
    command: str, link: str, to: str, run: Path, private: Path, tmp_path: Path, capfd
) -> None:
    """A copy of a run holds what is in the run; of what it leaves out it tells."""
    (process,) = run.glob("node7/*")
    for place in (private / "stolen", private / "host" / process.name):
        shutil.copytree(process, place)
        (place / "events.jsonl").write_text(SECRET)
    path = run / link.replace("PROCESS", process.name)
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(private / to)
    copy = tmp_path / "copy"

    if command == "merge":
        main(["merge", str(run), "-o", str(copy)])
        assert f"Links in run are left out, with what they lead to: {path.relative_to(run)}." in (
            capfd.readouterr().err
        )
    else:
        main(["push", str(run), f"file://{copy}"])

    assert "secret" not in _texts(tmp_path / "copy")


QUESTION = "select count(*) from executions"


@pytest.mark.parametrize("link", ["derived", "derived/tables", "derived/tables/node7", "report"])
@pytest.mark.parametrize(
    "command",
    [
        ["report"],
        ["advise"],
        ["sql", "RUN", QUESTION],
        ["export", "--to", "chrome"],
        ["export", "--to", "parquet"],
        ["export", "--to", "models-profiler"],
        ["export", "--to", "step-timeline"],
    ],
    ids=" ".join,
)
def test_nothing_is_written_behind_a_link(
    command: list[str], link: str, run: Path, private: Path, capfd
) -> None:
    """Caches and exports stay in the run: a stranger's link makes nothing of ours anywhere else."""
    (run / link).parent.mkdir(parents=True, exist_ok=True)
    (run / link).symlink_to(private)
    before = _state(private)

    words = [str(run) if word == "RUN" else word for word in command]
    status = main(words if "RUN" in command else [words[0], str(run), *words[1:]])

    assert _state(private) == before
    is_export = command[0] == "export"
    assert status == (2 if is_export and link == "report" else 0)
    if status:
        assert "cannot be written: it is a link, or no directory" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("chrome", "timeline.json"),
        ("chrome", ".tmp-timeline.json"),
        ("step-timeline", "step-timeline.json"),
        ("parquet", "tables/runs.parquet"),
        ("parquet", "tables/executions"),
        ("parquet", "tables"),
        ("models-profiler", "profile/summary.md"),
        ("models-profiler", "profile/timeline"),
        ("models-profiler", "profile"),
    ],
)
@pytest.mark.parametrize("what", ["link", "pipe", "hard link"])
def test_what_lies_in_the_place_of_an_export_is_not_written_to(
    what: str, kind: str, name: str, run: Path, private: Path
) -> None:
    """A link, a pipe or a further name of a file is replaced, or is in the way; nothing waits."""
    path = run / "report" / name
    path.parent.mkdir(parents=True)
    target = private / ("key.json" if path.suffix else "")
    if what == "link":
        path.symlink_to(target)
    elif what == "pipe":
        os.mkfifo(path)
    else:
        os.link(private / "key.json", path)
    before = _state(private)

    status = main(["export", str(run), "--to", kind])

    assert _state(private) == before
    assert status == (0 if path.suffix else 2)


def test_a_place_that_was_named_may_be_a_link(run: Path, private: Path, tmp_path: Path) -> None:
    """What a person names is meant: the run, and the place to write to."""
    (tmp_path / "named").symlink_to(run)
    (tmp_path / "target").symlink_to(private / "timeline.json")
    named = str(tmp_path / "named")

    assert main(["export", named, "--to", "chrome", "-f", str(tmp_path / "target")]) == 0
    assert main(["sql", named, QUESTION]) == 0

    assert (tmp_path / "target").is_symlink()
    assert "traceEvents" in (private / "timeline.json").read_text()
    assert list(run.glob("derived/tables/node7/*.parquet"))


@pytest.mark.parametrize("what", ["link", "hard link", "pipe", "host"])
def test_a_request_is_not_written_elsewhere(
    what: str, run: Path, private: Path, tmp_path: Path
) -> None:
    """The control words of another run are no stranger's to write."""
    (steps,) = run.glob("node7/*/steps.bin")
    other = tmp_path / "other" / steps.parent.name
    other.mkdir(parents=True)
    shutil.copyfile(steps, other / "steps.bin")
    before = (other / "steps.bin").read_bytes()
    if what == "host":
        shutil.rmtree(run / "node7")
        (run / "node7").symlink_to(tmp_path / "other")
    else:
        steps.unlink()
        {"link": steps.symlink_to, "hard link": steps.hardlink_to}.get(
            what, lambda _: os.mkfifo(steps)
        )(other / "steps.bin")

    with pytest.raises(UnreadableInput):
        request_samples(steps, samples=3)

    assert (other / "steps.bin").read_bytes() == before


def test_a_merge_writes_nothing_behind_links_of_its_target(
    run: Path, private: Path, tmp_path: Path
) -> None:
    """A merged run that is extended may be a stranger's, too."""
    target = tmp_path / "merged"
    assert main(["merge", str(run), "-o", str(target)]) == 0
    other = write_run(
        tmp_path / "second",
        [
            WrittenProcess(
                pid=77,
                loops=[WrittenLoop(steps=regular_steps(3))],
                header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
            )
        ],
    )
    before = _state(private)

    for name in ("node7", "launches"):
        shutil.rmtree(target / name)
        (target / name).symlink_to(private)
        assert main(["merge", str(other), "-o", str(target)]) == 2
        (target / name).unlink()

    assert _state(private) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
@pytest.mark.parametrize("of_another", [".", "derived"])
def test_nothing_is_cached_where_another_user_owns(of_another: str, run: Path) -> None:
    """In a run of another user, or where its caches are another's, a question is answered alone."""
    (run / of_another).mkdir(exist_ok=True)
    os.chown(run / of_another, 12345, -1)

    assert main(["sql", str(run), QUESTION]) == 0
    assert main(["report", str(run)]) == 0

    assert _texts(run / "derived") == ""


def test_the_answer_to_a_request_is_not_waited_for_in_a_pipe(run: Path, private: Path) -> None:
    """Neither a pipe nor a link in place of the events says what became of a request."""
    (events,) = run.glob("node7/*/events.jsonl")
    events.unlink()
    os.mkfifo(events)
    assert EventTail(events).read(1) == RequestEvents()

    events.unlink()
    events.symlink_to(private / "key.json")
    tail = EventTail(events)
    with (private / "key.json").open("a") as file:
        file.write('{"event": "request", "request": 2, "superseded": 1}\n')

    assert tail.read(1) == RequestEvents()
