"""A file from elsewhere gives a whole profile: steps, spans and allocations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import kineto
from tests.support.captures import CPU, Node, TraceEvent, run_metadata, xspace
from tests.support.golden import golden
from tests.support.gpu_traces import training_step
from tests.support.rundir import UNIX_NS
from tfprobe.errors import UnreadableInput
from tfprobe.profile.capture_tables import Place, SpanKind
from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.file import file_profile

HOST = "/host:CPU"


def profile_of(tmp_path: Path, content: bytes) -> Profile:
    path = tmp_path / "recording"
    path.write_bytes(content)
    return file_profile(path)


def steps_of(profile: Profile) -> list[tuple[int, int, int]]:
    """Return number, start and duration of the steps, in µs."""
    return [
        (each.step, each.start_ns // 1000, each.duration_ns // 1000) for each in profile.captures
    ]


def test_marked_steps_of_an_xspace_are_captures(tmp_path: Path) -> None:
    """tf.profiler.experimental.Trace marks them, and so does Keras for its callback."""
    lines = {
        "python": [
            TraceEvent("train", 0, 50, {"step_num": 7, "_r": 1}),
            TraceEvent("a:Relu", 10, 5),
            TraceEvent("b:Relu", 55, 2),
            TraceEvent("train", 60, 40, {"step_num": 8, "_r": 1}),
            TraceEvent("a:Relu", 70, 5),
        ]
    }

    found = profile_of(tmp_path, xspace({HOST: lines}))

    assert steps_of(found) == [(7, 0, 50), (8, 60, 40)]
    assert found.executions.capture.tolist() == [0, 1]
    assert (found.loops[0].times.count, found.loops[0].recent.first_step) == (2, 7)


def test_calls_of_the_dearest_function_are_steps_where_none_is_marked(tmp_path: Path) -> None:
    """What it calls itself is no step, nor is a function that takes less time."""
    call = {"tf_function_call": "notTraced-nonXla"}
    lines = {
        "python": [
            TraceEvent("evaluate", 0, 5, call),
            TraceEvent("train", 10, 50, call),
            TraceEvent("inner", 15, 40, call),
            TraceEvent("train", 70, 50, call),
        ],
        "tf_Compute/1": [TraceEvent("a:Relu", 20, 5), TraceEvent("a:Relu", 80, 5)],
    }

    found = profile_of(tmp_path, xspace({HOST: lines}))

    assert steps_of(found) == [(0, 10, 50), (1, 70, 50)]
    assert found.executions.capture.tolist() == [0, 1]


def test_runs_of_a_session_are_steps(tmp_path: Path) -> None:
    """TensorFlow's runtime marks each."""
    lines = {
        "python": [TraceEvent("SessionRun", 0, 30), TraceEvent("SessionRun", 40, 30)],
        "tf_Compute/1": [TraceEvent("a:Relu", 5, 5), TraceEvent("a:Relu", 45, 5)],
    }

    assert steps_of(profile_of(tmp_path, xspace({HOST: lines}))) == [(0, 0, 30), (1, 40, 30)]


def test_a_file_without_steps_is_one_step(tmp_path: Path) -> None:
    """It lasts from the first execution to the end of the last."""
    found = profile_of(tmp_path, run_metadata({CPU: [Node("a", 5, 7), Node("b", 20, 2)]}))

    assert steps_of(found) == [(0, UNIX_NS // 1000 + 5, 17)]


def test_what_a_device_starts_after_its_step_belongs_to_the_launch(tmp_path: Path) -> None:
    """PyTorch's steps end before the device is done; what nobody launched in a step is left out."""
    found = profile_of(tmp_path, kineto.training())

    assert steps_of(found) == [(4, 0, 100), (5, 100, 50)]
    rows = [
        (row.name, int(at))
        for row, at in zip(found.executions, found.executions.capture, strict=True)
    ]
    assert ("aten::relu_", 1) in rows
    assert "aten::ones" not in [name for name, _ in rows]
    late = [row for row in found.executions if row.detail == "elementwise_kernel"]
    assert [row.start_ns for row in late] == [160_000]


def test_spans_and_allocations_come_with_their_steps(tmp_path: Path) -> None:
    """Views of a file see what views of a run see."""
    found = profile_of(tmp_path, training_step(start_ns=UNIX_NS))

    assert set(found.spans.kind.tolist()) >= {SpanKind.LAUNCH, SpanKind.SYNC, SpanKind.COPY_CALL}
    assert found.allocations.bytes.tolist() == [4096, -4096]
    assert set(found.spans.capture.tolist()) == {0}


def test_a_timeline_of_several_runs_is_cut_where_each_begins(tmp_path: Path) -> None:
    """client.timeline joins them on one axis; each run begins at its _SOURCE."""
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"{CPU} Compute"}}

    def box(name: str, ts: int) -> dict[str, object]:
        args = {"name": name, "op": "Relu"}
        return {"ph": "X", "pid": 1, "tid": 0, "ts": ts, "dur": 5, "name": "Relu", "args": args}

    events = [named, box("_SOURCE", 0), box("a", 2), box("_SOURCE", 50), box("a", 60)]
    found = profile_of(tmp_path, json.dumps({"traceEvents": events}).encode())

    assert steps_of(found) == [(0, 0, 7), (1, 50, 15)]


def test_copies_of_a_client_timeline_have_a_direction(tmp_path: Path) -> None:
    """The device is "memcpy"; the op tells where to."""
    named = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/gpu:0/memcpy Compute"}}
    args = {"name": "edge_5_x", "op": "MEMCPYHtoD"}
    box = {"ph": "X", "pid": 1, "tid": 0, "ts": 1, "dur": 2, "name": "MEMCPYHtoD", "args": args}

    (row,) = profile_of(tmp_path, json.dumps({"traceEvents": [named, box]}).encode()).executions

    assert (row.place, row.name) == (Place.HOST_TO_DEVICE, "edge_5_x")


def test_tensorflows_own_timeline_has_kernels_copies_and_calls(tmp_path: Path) -> None:
    """The JSON beside an XSpace tells the same of each event, numbers as texts."""
    names = {1: "/host:CPU", 2: "/device:GPU:0"}
    details = "kind_src:pageable kind_dst:device size:64 dest:0 async:1"
    boxes = [
        (1, "cuMemcpyHtoDAsync_v2", {"correlation_id": "3", "memcpy_details": details}),
        (1, "train", {"tf_function_call": "notTraced-nonXla"}),
        (2, "MemcpyH2D", {"correlation_id": "3", "memcpy_details": details}),
        (2, "sgemm", {"correlation_id": "4", "tf_op": "a/b:MatMul"}),
    ]
    events = [
        {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        for pid, name in names.items()
    ] + [
        {"ph": "X", "pid": pid, "tid": 1, "ts": 5, "dur": 9, "name": name, "args": args}
        for pid, name, args in boxes
    ]

    found = profile_of(tmp_path, json.dumps({"traceEvents": events}).encode())

    told = {row.place: (row.name, row.correlation, row.bytes) for row in found.executions}
    assert told == {
        Place.HOST_TO_DEVICE: ("MemcpyH2D", 3, 64),
        Place.ACCELERATOR: ("a/b", 4, 0),
    }
    assert sorted(found.spans.kind.tolist()) == [SpanKind.COPY_CALL, SpanKind.FUNCTION_CALL]


# What each recording by others holds: steps, executions on an accelerator, copies, launches.
RECORDINGS = {
    "hta/timeline_analysis__sampled_rank-0.json.gz": (2, 1154, 50, 1154),
    "hta/critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz": (
        1,
        79,
        19,
        79,
    ),
    "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz": (1, 14, 2, 14),
    "hta/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz": (1, 0, 0, 0),
    "ikhlestov_timelines/GPU/timeline_03_merged_5_runs.json": (5, 191, 30, 0),
    "ikhlestov_timelines/CPU/timeline_02_step_1.json": (1, 0, 0, 0),
    "tfprof_testdata/run_meta": (1, 21, 2, 0),
    "sagemaker/tfprofiler_local_missing_metadata__framework__tensorflow__detailed_profiling"
    "__2020080513__000000000__plugins__profile__2020_08_05_13_37_44__ip-172-31-19-241"
    ".trace.json.gz": (1, 0, 0, 0),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_recordings_by_others_are_read_whole(name: str) -> None:
    """Every kernel, copy and launch of theirs is there."""
    path = golden(name)

    found = file_profile(path)

    places = found.executions.place
    assert (
        len(found.captures),
        int((places == Place.ACCELERATOR).sum()),
        int((places > Place.ACCELERATOR).sum()),
        int((found.spans.kind == SpanKind.LAUNCH).sum()),
    ) == RECORDINGS[name]


def test_a_recording_of_a_tpu_is_refused_in_words() -> None:
    """It holds no op that can be named."""
    path = golden("xprof", "tpu_inference_2.xplane.pb")

    with pytest.raises(UnreadableInput, match="no execution of an op"):
        file_profile(path)
