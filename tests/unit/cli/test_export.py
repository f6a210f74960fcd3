"""`tfprobe export` writes a recorded run as files of other programs."""

from __future__ import annotations

import gzip
import json
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import TraceEvent, xspace
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tests.support.step_stats import gpu_step
from tests.unit.cli.test_views import CODE, GRAPH, graph_def, step
from tfprobe.cli.main import main
from tfprobe.formats.profile_proto import graph_profile
from tfprobe.formats.schema import message_class

KINDS = ["chrome", "models-profiler", "pprof", "profile-proto", "speedscope", "step-timeline"]


def recorded(root: Path, captures: dict[str, bytes]) -> Path:
    """Write a run with one loop, a graph, a code map, and these captures by suffix."""
    names = [f"{at:06}-session_run-0{suffix}" for at, suffix in zip((2, 7), captures, strict=True)]
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2, 7])],
        captures=dict(zip(names, captures.values(), strict=True)),
        events=[
            {"event": "sample", "work": 0, "step": at, "capture": name, "graph": GRAPH}
            for at, name in zip((2, 7), names, strict=True)
        ],
        graphs={f"{GRAPH}.graph.pb": graph_def()},
        code={f"{GRAPH}.json": json.dumps(CODE).encode()},
    )
    return write_run(root, [process])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a RunMetadata of step 2 and a profiler window of step 7."""
    window = xspace(
        {"/host:CPU": {"1": [TraceEvent("dense/product:MatMul", 0, 90), TraceEvent("loss:Sum")]}}
    )
    return recorded(
        tmp_path / "runs" / "r1", {".run_metadata.pb": step(), ".xplane.pb": window}
    )  # fmt: skip


def text_of(run: Path, name: str) -> Any:  # Any: a JSON document
    return json.loads((run / "report" / name).read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_written_into_the_run(run, capsys, kind) -> None:
    """And the answer says where it is and what opens it."""
    assert main(["export", str(run), "--to", kind]) == 0

    where, opens = capsys.readouterr().out.splitlines()
    assert Path(where).exists()
    assert Path(where).parent == run / "report"
    assert opens
    assert not list(run.glob("report/.tmp-*"))


def test_chrome_has_all_sampled_steps(run) -> None:
    """Or one of them."""
    main(["export", str(run), "--to", "chrome"])
    both = {e["args"]["step"] for e in text_of(run, "timeline.json")["traceEvents"]
            if e["ph"] == "X"}  # fmt: skip
    main(["export", str(run), "--to", "chrome", "--step", "7"])
    one = {e["args"]["step"] for e in text_of(run, "timeline.json")["traceEvents"]
           if e["ph"] == "X"}  # fmt: skip

    assert (both, one) == ({2, 7}, {7})


def test_text_is_compressed_where_the_name_says_so(run, tmp_path) -> None:
    """Perfetto opens both."""
    path = tmp_path / "trace.json.gz"

    status = main(["export", str(run), "--to", "chrome", "-f", str(path)])

    assert status == 0
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def test_pprof_says_only_what_the_recording_knows(run) -> None:
    """Peak memory and float operations are not in it."""
    main(["export", str(run), "--to", "pprof", "--step", "2"])

    message = message_class("tfprobe.pprof.Profile")()
    message.ParseFromString(gzip.decompress((run / "report" / "code.pb.gz").read_bytes()))
    types = [message.string_table[each.type] for each in message.sample_type]
    assert types == [
        "time", "accelerator", "cpu", "bytes", "output_bytes", "params", "occurrence"
    ]  # fmt: skip


def test_speedscope_is_by_code_or_by_scope(run) -> None:
    """Lines of Python, or name scopes."""
    main(["export", str(run), "--to", "speedscope"])
    lines = {frame["name"] for frame in text_of(run, "speedscope.json")["shared"]["frames"]}
    main(["export", str(run), "--to", "speedscope", "--by", "scope"])
    scopes = {frame["name"] for frame in text_of(run, "speedscope.json")["shared"]["frames"]}

    assert {"train.py:10:main", "dense/product [MatMul]"} <= lines
    assert {"dense", "dense/product [MatMul]"} <= scopes


def test_tfprof_reads_what_was_written(run, capsys) -> None:
    """A recorded run becomes a profile of the old tool."""
    main(["export", str(run), "--to", "profile-proto"])
    path = run / "report" / "tfprof.profile"
    capsys.readouterr()

    status = main(["tfprof", f"--profile_path={path}", "-step", "7", "op"])

    assert status == 0
    assert re.search(r"^MatMul +90us ", capsys.readouterr().out, re.MULTILINE)
    assert graph_profile(path.read_bytes()).steps == (2, 7)


@pytest.mark.parametrize(("number", "expected"), [("2", 3), ("7", 2)])
def test_a_step_timeline_is_of_one_step(run, number, expected) -> None:
    """From a RunMetadata or from a profiler window."""
    main(["export", str(run), "--to", "step-timeline", "--step", number])

    events = text_of(run, "step-timeline.json")["traceEvents"]
    assert len([event for event in events if event["ph"] == "X"]) == expected


def test_a_step_timeline_has_what_was_asked_for(run) -> None:
    """Tensors and allocators; an op as long as its kernels ran."""
    words = ["export", str(run), "--to", "step-timeline", "--step", "2"]
    main([*words, "--memory", "--op-time", "gpu"])
    events = text_of(run, "step-timeline.json")["traceEvents"]

    product = next(e for e in events if e.get("args", {}).get("name") == "dense/product")
    assert {"N", "O", "D", "C"} <= {event["ph"] for event in events}
    assert product["ph"] == "X"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--to", "chrome", "--step", "3"], 1, "2, 7"),
        (["--to", "pprof", "--step", "3"], 1, "2, 7"),
        (["--to", "chrome", "--loop", "fit"], 1, "session_run"),
        (["--to", "speedscope", "--loop", "fit"], 1, "session_run"),
        (["--to", "pdf"], 2, "pdf"),
        (["--to", "chrome", "--rank", "4"], 1, "rank 4"),
        (["--to", "chrome", "-f", "{run}/no/such/file"], 2, "-f"),
        (["--to", "models-profiler", "-f", "{run}/run.json"], 2, "-f"),
        ([], 2, "--to"),
    ],
)
def test_what_cannot_be_written_is_said(run, capsys, words, status, says) -> None:
    """One paragraph, and no file."""
    ended = main(["export", str(run), *(word.replace("{run}", str(run)) for word in words)])

    said = capsys.readouterr().err
    assert (ended, says in said) == (status, True), said
    assert "bug in tfprobe" not in said
    assert not (run / "report").exists() or not list((run / "report").iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_traces_has_nothing_to_write(tmp_path, capsys, kind) -> None:
    """And says so."""
    empty = write_run(tmp_path / "runs" / "r0")

    assert main(["export", str(empty), "--to", kind]) == 1
    assert "has no" in capsys.readouterr().err


def test_without_a_code_map_scopes_are_offered(run, capsys) -> None:
    """The views of code say what they lack."""
    for path in run.glob("*/*/code/*.json"):
        path.unlink()

    assert main(["export", str(run), "--to", "pprof"]) == 1
    assert "--by scope" in capsys.readouterr().err


def test_a_pipe_stays_a_pipe(run, tmp_path) -> None:
    """Only a file is replaced; what else stands there is written to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()

    status = main(["export", str(run), "--to", "speedscope", "-f", str(pipe)])

    reader.join()
    assert status == 0
    assert pipe.is_fifo()
    assert json.loads(received[0])["profiles"]


def test_a_link_keeps_its_target(run, tmp_path) -> None:
    """The file it leads to is what is replaced."""
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)

    main(["export", str(run), "--to", "speedscope", "-f", str(link)])

    assert link.is_symlink()
    assert json.loads(target.read_text())["profiles"]


def test_a_capture_that_cannot_be_read_is_told(run, capsys) -> None:
    """The rest is written."""
    next(run.glob("*/*/captures/*.xplane.pb")).write_bytes(b"\xff")

    status = main(["export", str(run), "--to", "chrome"])

    assert status == 0
    assert "xplane.pb" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["step-timeline", "profile-proto", "speedscope"])
def test_a_file_from_elsewhere_is_exported_as_well(run, tmp_path, capsys, kind) -> None:
    """A RunMetadata that a job wrote itself; what is about whole runs says so."""
    path, out = tmp_path / "run_metadata.pb", tmp_path / "out"
    path.write_bytes(step())

    status = main(["export", str(path), "--to", kind, "--by", "scope", "-f", str(out)])

    assert status == 0
    assert out.stat().st_size > 0
    assert main(["export", str(path), "--to", "chrome", "-f", str(out)]) == 2
    assert "needs a run" in capsys.readouterr().err


def test_a_run_metadata_file_keeps_its_memory(tmp_path) -> None:
    """It is drawn from what TensorFlow wrote; a window from what its rows tell."""
    metadata, window, out = tmp_path / "m.pb", tmp_path / "w.pb", tmp_path / "out.json"
    metadata.write_bytes(gpu_step())
    window.write_bytes(xspace({"/host:CPU": {"1": [TraceEvent("dense/product:MatMul", 0, 90)]}}))

    phases = {}
    for path in (metadata, window):
        status = main(
            ["export", str(path), "--to", "step-timeline", "--memory", "-f", str(out)]
        )  # fmt: skip
        assert status == 0
        phases[path] = {event["ph"] for event in json.loads(out.read_text())["traceEvents"]}

    assert phases == {metadata: set("MXstNODC"), window: set("MX")}


def test_one_step_of_a_file_can_be_asked_for(run, tmp_path) -> None:
    """A ProfileProto may hold several."""
    both, one = tmp_path / "both", tmp_path / "one"
    main(["export", str(run), "--to", "profile-proto", "-f", str(both)])

    status = main(["export", str(both), "--to", "profile-proto", "--step", "7", "-f", str(one)])

    assert status == 0
    assert graph_profile(one.read_bytes()).steps == (7,)


def test_times_can_be_left_as_they_were_recorded(run) -> None:
    """To look at what the clocks of machines said."""
    main(["export", str(run), "--to", "chrome", "--as-recorded"])

    document = json.loads((run / "report" / "timeline.json").read_text())
    assert document["otherData"]["times"] == "as recorded"
