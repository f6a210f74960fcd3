"""Nothing that a recording holds steers the terminal it is shown on."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import CPU, Node, Op, graph_def, run_metadata
from tests.support.rundir import (
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)
from tfprobe.cli import common
from tfprobe.cli.main import main

# Colours, titles, a line that passes for one of ours, and marks that turn or hide what follows.
EVIL = "e\x1b[35;46m\x1b]0;t\x07\x9b2J\r\x08\x7f\x85\u2028\u202e\u2066\tv\nINJECTED [bold]*"
# Names of files, which are bytes: no slash, no NUL, and what is no UTF-8.
EVIL_NAME = "e\x1b[35;46m\x07\r\x9b\u202e\t\udcff\nINJECTED"
FINGERPRINT = "00f1ce"
STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# What our own pages consist of where colours are on, and a line of progress that goes.
OURS = re.compile(r"\x1b\[(?:0|[1-9][0-9]?(?:;[0-9]{1,3})*)m|\r\x1b\[K")


def _write(root: Path, name: str, pid: int) -> Path:
    """A run in which each text is hostile."""
    ops = [Op(EVIL, f"MatMul{EVIL}"), Op(f"layer{EVIL}/x", "Add")]
    code = {
        "schema": "tfprobe.code/1",
        "files": [EVIL, "/home/ada/net.py"],
        "functions": ["main", EVIL],
        "frames": [[0, 10, 0], [1, 5, 1]],
        "stacks": [[0], [0, 1]],
        "ops": {EVIL: 1, f"layer{EVIL}/x": 0},
        "truncated": False,
    }
    process = WrittenProcess(
        pid=pid,
        host=EVIL_NAME,
        manifest=dict.fromkeys(
            ("executable", "prefix", "python", "implementation", "tensorflow", "keras", "wrapt"),
            EVIL,
        )
        | {
            # As its folder says: a process is found by it.
            "host": EVIL_NAME,
            "argv": [EVIL, EVIL],
            "devices": EVIL,
            "rank": {"source": EVIL, "index": pid, "world": 2, "role": EVIL},
        },
        loops=[
            WrittenLoop(name=EVIL[:60], thread=EVIL[:20], steps=regular_steps(30), sampled=[2, 5]),
            WrittenLoop(kind="fit", name=EVIL[:50], thread=EVIL[:20], steps=regular_steps(30)),
        ],
        events=[
            *(_sample(step) for step in (2, 5)),
            {"event": "error", "where": EVIL, "error": EVIL, "message": EVIL, "trace": EVIL},
            {"event": EVIL, "what": EVIL},
        ],
        captures={_file(2): _metadata(), _file(5): b"\xff" * 100},
        graphs={f"{FINGERPRINT}.graph.pb": graph_def(ops)},
        code={f"{FINGERPRINT}.json": json.dumps(code).encode()},
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    manifest = dict.fromkeys(("host", "user", "cwd", "started", "tfprobe"), EVIL)
    run = write_run(
        root / name, [process], manifest={"command": [EVIL, EVIL], "note": EVIL, **manifest}
    )
    (run / "machine").mkdir()
    device = {"name": EVIL, "index": 0, "uuid": EVIL, "busy_ratio": 0.5}
    lines = [json.dumps({"unix_ns": UNIX_NS + at, "devices": [device]}) for at in (0, 10**9)]
    (run / "machine" / f"{EVIL_NAME}.jsonl").write_text("".join(f"{each}\n" for each in lines))
    return run


def _metadata() -> bytes:
    nodes = [Node(EVIL, 40, 30, label=EVIL), Node(f"layer{EVIL}/x", 90, 300)]
    return run_metadata({CPU: nodes, f"/device:{EVIL}": nodes})


def _file(step: int) -> str:
    return f"{step:06d}-session_run-0.run_metadata.pb"


def _sample(step: int) -> Mapping[str, Any]:
    return {
        "event": "sample",
        "work": 0,
        "step": step,
        "capture": _file(step),
        "level": "full",
        "start_ns": MONO_NS + step * 10**6,
        "end_ns": MONO_NS + (step + 1) * 10**6,
        "graph": FINGERPRINT,
    }


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory of two such runs, with such a name itself."""
    place = tmp_path / f"runs-{EVIL_NAME}"
    for pid, name in ((100, f"a{EVIL_NAME}"), (101, f"b{EVIL_NAME}")):
        _write(place, name, pid)
    return place


# RUN and OTHER are runs, RUNS the directory of both, NEW a place where nothing is.
COMMANDS = (
    "advise RUN",
    "advise RUN --md NEW",
    "breakdown RUN",
    "code RUN",
    "diff RUN OTHER",
    "diff RUN OTHER --md NEW",
    "export RUN --to chrome",
    "export RUN --to parquet",
    "export RUN --to chrome -f NEW/timeline.json",
    "gc RUNS --keep 1 --dry-run",
    "graph RUN",
    "graph RUN --loop NONE",
    "input RUN",
    "ls RUNS",
    "ls NEW",
    "memory RUN",
    "merge RUN OTHER -o NEW",
    "merge NEW -o RUN",
    "merge RUN RUNS LINK -o NEW",
    "metrics RUNS --once",
    "op RUN",
    "push RUN NEW",
    "push RUN URL",
    "ranks RUNS",
    "ranks RUN",
    "report RUN",
    "report RUNS",
    "report NEW",
    "report RUN --rank 77",
    "rm RUN --yes",
    "rm RUN --yes --force",
    "gc RUNS --keep 1 --yes --force",
    "report RUN --md NEW",
    "report RUN --html NEW",
    "rm RUN --dry-run",
    "rm NEW",
    "scope RUN",
    "steps RUN",
    "steps RUN --loop NONE",
    "tiers RUN",
    "top RUNS --once",
    "trace RUN --steps 3",
    "transfers RUN",
    "code NEW",
    "code RUN -output file:outfile=NEW",
    "scope RUN -output timeline:outfile=NEW",
    "code RUN -output pprof:outfile=NEW",
    "EVIL",
    "report --EVIL",
)
TABLES = (
    "runs",
    "processes",
    "works",
    "captures",
    "executions",
    "problems",
    "accelerators",
    "interpreters",
    "gaps",
)


@pytest.mark.parametrize("coloured", [False, True], ids=["piped", "coloured"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_text_of_a_recording_steers_the_terminal(
    command: str,
    runs: Path,
    tmp_path: Path,
    coloured: bool,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a command says, of a run or of its arguments, consists of what can be printed."""
    monkeypatch.setattr(common, "_obeys_codes", lambda _stream: coloured)
    # Wide enough that no line is broken, by us, where a name has a break.
    monkeypatch.setenv("COLUMNS", "5000")

    main(_words(command, runs, tmp_path))

    captured = capfd.readouterr()
    written = tmp_path / f"new-{EVIL_NAME}"
    text = written.read_text() if command.endswith("--md NEW") else ""
    assert captured.out or captured.err or text
    _check((*captured, text), coloured=coloured)


@pytest.mark.parametrize("form", ["", "--csv", "--json"])
@pytest.mark.parametrize("table", TABLES)
def test_cells_of_a_query_do_not_steer_the_terminal(
    table: str, form: str, runs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A query of a table gives its texts, in each form."""
    words = ["sql", str(runs), f"select * from {table} limit 20", *filter(None, [form])]

    main(words)

    captured = capfd.readouterr()
    _check(captured, coloured=False, may_break_lines=form == "--csv")
    if form == "--json":
        json.loads(captured.out)


DOCUMENTS = (
    "advise RUN",
    "breakdown RUN",
    "code RUN",
    "diff RUN OTHER",
    "graph RUN",
    "input RUN",
    "ls RUNS",
    "merge RUN LINK -o NEW",
    "op RUN",
    "ranks RUN",
    "report RUN",
    "rm RUN --yes --force",
    "scope RUN",
    "steps RUN",
    "tiers RUN",
    "top RUNS --once",
)


@pytest.mark.parametrize("command", DOCUMENTS)
def test_documents_stay_json(
    command: str, runs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The filter leaves JSON what it is: it has escapes of its own."""
    main([*_words(command, runs, tmp_path), "--json"])

    captured = capfd.readouterr()
    _check(captured, coloured=False)
    assert json.loads(captured.out)


def _words(command: str, runs: Path, tmp_path: Path) -> list[str]:
    first, second = sorted(runs.iterdir())
    new = tmp_path / f"new-{EVIL_NAME}"
    url = f"file://{tmp_path}/{EVIL_NAME}"
    places = {
        "RUNS": runs,
        "RUN": first,
        "OTHER": second,
        "NEW": new,
        "URL": url,
        "LINK": _same(first, tmp_path),
        "NEW/timeline.json": tmp_path / f"{EVIL_NAME}.json",
        "NONE": EVIL,
    }
    words = [str(places.get(word, word)) for word in command.split()]
    return [word.replace("=NEW", f"={new}").replace("EVIL", EVIL) for word in words]


def _same(run: Path, tmp_path: Path) -> Path:
    """Another copy of a run, which a merge has to tell of."""
    copy = tmp_path / f"copy-{EVIL_NAME}"
    if not copy.exists():
        shutil.copytree(run, copy)
    return copy


def _check(captured: Any, *, coloured: bool, may_break_lines: bool = False) -> None:
    for text in captured:
        assert "\x1b[35;46m" not in text
        plain = OURS.sub("", text) if coloured else text
        assert STEERS.search(plain) is None, ascii(text)
        lines = [] if may_break_lines else plain.splitlines()
        assert [line for line in lines if line.lstrip().startswith("INJECTED")] == []
