"""The directory of the model suites' profiler, from what a recording has."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from google.protobuf import text_format

from tests.support.models_profiler import check_summary
from tests.support.profiles import Step, loop, process, profile
from tests.support.rundir import UNIX_NS
from tests.support.step_stats import gpu_step
from tests.support.tiers import Call, activity, calls_and_rows, resource_sample
from tfprobe.export.models_profiler import ExportedStep, models_profiler
from tfprobe.formats.run_metadata.step_stats import step_stats, step_stats_text
from tfprobe.formats.schema import message_class
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.profile.records import DeviceStats, NodeStats

NODE = process()


def window(*devices: str, name: str = "dense/MatMul") -> tuple[DeviceStats, ...]:
    """Return a step that was recorded without StepStats."""
    node = NodeStats(name, f"{name} = MatMul()", 1000, 25)
    return tuple(DeviceStats(device, (node, node)) for device in devices)


def written(steps: Any, loops: Any = None, **told: Any) -> dict[str, str]:
    loops = loops or [(NODE, loop(name="vgg16", kind="fit"))]
    facts = {
        "loops": [each for _, each in loops],
        "processes": sorted(
            {each.index: each for each, _ in loops}.values(), key=lambda p: p.index
        ),
        **told,
    }
    files = dict(models_profiler(profile(**facts), loops, steps))
    check_summary(json.loads(files["summary.json"]))
    return files


def step(devices: tuple[DeviceStats, ...], number: int = 4, **more: Any) -> ExportedStep:
    facts: dict[str, Any] = {
        "process": NODE,
        "loop": loop(name="vgg16", kind="fit"),
        "step": number,
        "devices": devices,
        "text": None,
    }
    return ExportedStep(**{**facts, **more})


def test_each_step_has_its_files() -> None:
    """A chrome trace and a StepStats, by model and step, and the two summaries."""
    files = written([step(window("/host:CPU"), 4), step(window("/host:CPU"), 9)])

    assert sorted(files) == [
        "step_stats/vgg16_step_4",
        "step_stats/vgg16_step_9",
        "summary.json",
        "summary.md",
        "timeline/vgg16_step_4",
        "timeline/vgg16_step_9",
    ]
    assert len(json.loads(files["timeline/vgg16_step_4"])["traceEvents"]) == 3 + 2


def test_nodes_are_by_model_step_host_and_device() -> None:
    """Executions of a node are added up; what a window does not tell is null, and why is said."""
    summary = json.loads(written([step(window("/host:CPU"))])["summary.json"])

    assert summary["op_stats"] == {
        "vgg16": {
            "4": {
                "node7": {
                    "CPU": {"dense/MatMul": {"duration": 50, "output": None, "total_bytes": None}}
                }
            }
        }
    }
    assert set(summary["tfprobe"]["missing"]) == {"output", "total_bytes"}


def test_outputs_and_bytes_come_from_step_stats() -> None:
    """With their shapes and types, as that profiler spells them."""
    content = gpu_step()
    recorded = step(step_stats(content), text=step_stats_text(content))

    files = written([recorded])

    devices = json.loads(files["summary.json"])["op_stats"]["vgg16"]["4"]["node7"]
    assert sorted(devices) == ["CPU", "GPU", "GPU/memcpy", "GPU/stream:all"]
    assert devices["GPU"]["product"]["output"] == {"0": {"shape": [16], "type": "Float"}}
    assert devices["CPU"]["input"]["total_bytes"] == 400
    assert devices["GPU/stream:all"]["late"]["total_bytes"] is None
    assert "@@product#id=3" in files["step_stats/vgg16_step_4"]


def test_steps_are_activities() -> None:
    """Every remembered step with what it took, in µs, and of which loop and thread it was."""
    summary = json.loads(written([step(window("/host:CPU"))])["summary.json"])

    assert len(summary["app_stats"]) == 10
    assert summary["app_stats"]["3"] == {
        "fit vgg16": {"duration": 1000.0, "meta": "step of fit vgg16, thread MainThread"}
    }


def test_other_activities_are_under_the_step_they_began_in_or_before() -> None:
    """An import is under the first step, a save after training under the last; several add up."""
    # Step n takes from 1.001 n ms on a millisecond; the run began 10 ms before the first.
    node = process(unix_minus_monotonic_ns=UNIX_NS + 10_000_000)
    told = [
        activity("import", "tensorflow", 0, 5),
        activity("callbacks", "end", 13, 14, start_ns=UNIX_NS + 13_500_000),
        activity("callbacks", "end", 13, 14, start_ns=UNIX_NS + 13_700_000),
        activity("save", "Model.save", 50, 60),
    ]

    files = written(
        [step(window("/host:CPU"), process=node)],
        [(node, loop(name="vgg16", kind="fit"))],
        activities=told,
    )

    stats = json.loads(files["summary.json"])["app_stats"]
    assert stats["0"]["import tensorflow"]["duration"] == 5000.0
    assert stats["3"]["callbacks end"] == {
        "duration": 800.0,
        "meta": "2 times, callbacks, thread MainThread",
    }
    assert stats["9"]["save Model.save"]["duration"] == 10_000.0
    assert "| import tensorflow | 1 | 5.000 | 5.000 | 0.5 |" in files["summary.md"]


def test_an_activity_among_forgotten_steps_is_under_none() -> None:
    """Of 20,000 steps the last are remembered: which one an earlier callback followed is not."""
    node = process(unix_minus_monotonic_ns=UNIX_NS)
    long = loop([1_000_000] * 100, remembered=10, name="m", kind="fit", first_seen_ns=UNIX_NS)
    told = [
        activity("import", "tensorflow", -9, -5),
        activity("callbacks", "early", 40, 41),
        activity("callbacks", "late", 98, 99),
    ]

    summary = json.loads(
        written([step(window("/host:CPU"), process=node, loop=long)], [(node, long)],
                activities=told)["summary.json"]
    )  # fmt: skip

    stats = summary["app_stats"]
    assert list(stats["0"]) == ["import tensorflow"]
    assert "callbacks late" in stats["97"]
    assert summary["tfprobe"]["activities_without_step"] == 1
    assert not any("callbacks early" in of_step for of_step in stats.values())


def test_processes_of_a_run_keep_their_activities_apart() -> None:
    """Two workers import the same."""
    nodes = [process(unix_minus_monotonic_ns=UNIX_NS),
             process(index=1, pid=99, unix_minus_monotonic_ns=UNIX_NS)]  # fmt: skip
    loops = [(nodes[0], loop(name="a")), (nodes[1], loop(name="b", process=1))]
    told = [activity("import", "tensorflow", -9, -5, process=at) for at in (0, 1)]

    summary = json.loads(written([], loops, activities=told)["summary.json"])

    assert {"import tensorflow node7 4711", "import tensorflow node7 99"} < set(
        summary["app_stats"]["0"]
    )


def test_runtime_and_hardware_stand_beside_the_other_layers() -> None:
    """Driver calls and samples of the machine, or why there are none."""
    spans, rows = calls_and_rows([([Call(SpanKind.SYNC, "cuStreamSynchronize", 0, 60)], [])])
    seen = profile([Step([])])
    resource_samples = [resource_sample(at, user_ns=at * 10**9, system_ns=0) for at in (0, 1)]

    files = written(
        [], captures=seen.captures, spans=spans, executions=rows, resource_samples=resource_samples
    )

    summary = json.loads(files["summary.json"])
    (call,) = summary["runtime_stats"]["calls"]
    (machine,) = summary["hardware_stats"]["processes"]
    assert (call["name"], call["total_us"]) == ("cuStreamSynchronize", 60.0)
    assert machine["cores_busy"]["mean"] == 1.0
    assert summary["hardware_stats"]["devices"]["missing"]
    assert "| cuStreamSynchronize | sync | 1.0 | 0.060 | 0.060 | 0.060 |" in files["summary.md"]
    assert "| CPUs busy | 1.00 | 1.00 | 1.00 |" in files["summary.md"]


def test_a_summary_that_breaks_the_schema_is_refused() -> None:
    """The check that all these tests make is one."""
    broken = {"app_stats": {"0": {"fit": {"duration": "long", "meta": ""}}}, "op_stats": {}}

    with pytest.raises(jsonschema.ValidationError, match="'long' is not of type 'number'"):
        check_summary(broken)


def test_devices_of_one_kind_are_told_apart() -> None:
    """A number only where it is needed; the host's plane beside its device keeps its name."""
    several = ("/job:a/device:GPU:0", "/job:a/device:GPU:1", "/job:a/device:CPU:0", "/host:CPU")

    summary = json.loads(written([step(window(*several))])["summary.json"])

    devices = summary["op_stats"]["vgg16"]["4"]["node7"]
    assert sorted(devices) == ["CPU:0", "GPU:0", "GPU:1", "host:CPU"]


def test_models_of_one_name_are_told_apart() -> None:
    """By kind, then by process; processes of one host have a place each."""
    other = process(index=1, pid=99)
    loops = [
        (NODE, loop(name="m", kind="fit")),
        (NODE, loop(name="m", kind="evaluate", index=1)),
        (other, loop(name="m", kind="evaluate", process=1)),
    ]
    steps = [
        step(window("/host:CPU"), process=where, loop=what) for where, what in loops
    ]  # fmt: skip

    summary = json.loads(written(steps, loops)["summary.json"])

    assert list(summary["op_stats"]) == [
        "m fit",
        "m evaluate node7 4711",
        "m evaluate node7 99",
    ]
    assert list(summary["op_stats"]["m fit"]["4"]) == ["node7:4711"]


def test_step_stats_can_be_parsed() -> None:
    """As the text form of TensorFlow's message; times that were not recorded are not in it."""
    text = written([step(window("/host:CPU"))])["step_stats/vgg16_step_4"]

    message = message_class("tfprobe.step_stats.StepStats")()
    text_format.Parse(text, message)
    node = message.dev_stats[0].node_stats[0]
    assert (node.node_name, node.all_start_micros, node.op_end_rel_micros) == (
        "dense/MatMul",
        1000,
        25,
    )
    assert not node.memory


def test_names_that_are_no_file_names_are_changed() -> None:
    """A session's work is called by what it fetches."""
    odd = loop(name="loss:0, ../train|op")

    files = written([step(window("/host:CPU"), loop=odd)], [(NODE, odd)])

    assert "timeline/loss_0_.._train_op_step_4" in files
    assert "loss:0, ../train\\|op" in files["summary.md"]


def test_the_page_has_each_execution_once() -> None:
    """A stream of its own repeats `stream:all`, and the host's plane the CPU beside it."""
    devices = window("/job:a/device:GPU:0/stream:all", "/job:a/device:GPU:0/stream:7",
                     "/job:a/device:CPU:0", "/host:CPU")  # fmt: skip

    page = written([step(devices)])["summary.md"]

    rows = [line for line in page.splitlines() if line.startswith("| dense/MatMul")]
    assert rows == [
        "| dense/MatMul | node7 GPU/stream:all | 50.0 |",
        "| dense/MatMul | node7 CPU:0 | 50.0 |",
    ]
