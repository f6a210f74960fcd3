"""The runs to show: made up, recorded by others, and of real jobs where one can run.

Each is there for something that another has not: accelerators, ranks, nothing sampled, bad luck,
names that nobody should trust.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import trials
from tests.support.captures import CPU, GPU, Node, Op, graph_def, run_metadata
from tests.support.golden import GOLDEN
from tests.support.gpu_traces import training_step
from tests.support.rundir import (
    HOST,
    LAYOUT,
    MONO_NS,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

HOSTILE_TRIAL = "20261121-200418-train-bbbbbb"
BROKEN_TRIAL = "20261122-200418-train-cccccc"
ROOT = Path(__file__).resolve().parents[2]
SOURCE = "/home/ada/train.py"
FINGERPRINT = "00f1ce"
STEP_NS = 1_000_000

HOSTILE = (
    "<script>window.hacked = 1</script>/MatMul",
    '"><img src=x onerror="window.hacked = 1">/Add',
    "=HYPERLINK(1)/Mul",
    "../../etc/passwd",
    "\u202e\u05e9\u05dc\u05d5\u05dd/Sum",
    "x" * 100_000,
    "a'b\"c`d\\e{f|g}/Relu",
)


def write_all(folder: Path) -> list[str]:
    """Write all runs that can be had here, and trials of some; return the names of runs."""
    for name, write in MADE_UP.items():
        write(folder / name)
    trials.keep(trials.TRIAL, folder)
    trials.keep(trials.hostile(HOSTILE), folder, HOSTILE_TRIAL)
    trials.keep(trials.DELAYED, folder, trials.DELAYED_ID)
    trials.keep("{", folder, BROKEN_TRIAL)
    if GOLDEN.is_dir():
        for name, capture in RECORDED.items():
            _recorded(folder / name, GOLDEN / capture)
    _real(folder)
    return sorted(path.parent.name for path in folder.glob("*/run.json"))


def training(root: Path) -> None:
    """A job of one process: two works, steps that took long, three sampled ones, graph and code."""
    steps = [
        (start, end + (4 * STEP_NS if at in (77, 200) else 0))
        for at, (start, end) in enumerate(_apart(regular_steps(300, step_ns=STEP_NS)))
    ]
    names = ["conv/Conv2D", "conv/Relu", "dense/MatMul", "dense/BiasAdd", "loss/Sum"]
    captures = {
        _capture(at): run_metadata(
            {
                CPU: [
                    Node(name, 40 * place, 30 + at, requested_bytes=4096 << place)
                    for place, name in enumerate(names)
                ],
                f"{GPU}/stream:all": [
                    Node(name, 300 + 120 * place, 100 + at) for place, name in enumerate(names[:3])
                ],
            }
        )
        for at in (3, 50, 250)
    }
    process = WrittenProcess(
        loops=[
            WrittenLoop(name="train_op", steps=steps, sampled=[3, 50, 250], raised=[9]),
            WrittenLoop(kind="evaluate", name="evaluate", steps=_later(steps, 20)),
        ],
        events=_samples([3, 50, 250], graph=FINGERPRINT),
        captures=captures,
        graphs={f"{FINGERPRINT}.graph.pb": _graph(names)},
        code={f"{FINGERPRINT}.json": json.dumps(_code(names)).encode()},
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    write_run(root, [process])
    (folder,) = (root / HOST).iterdir()
    (folder / "stacks.jsonl").write_text(json.dumps(_stacks()) + "\n")


def _stacks() -> dict[str, Any]:
    """What was read of a second of it: two lines of the program, one of a package."""
    frames = [[SOURCE, 3, "<module>"], ["/x/site-packages/keras/trainer.py", 397, "fit"]]
    return {
        "start_ns": MONO_NS, "end_ns": MONO_NS + 1_000_000_000, "rate_per_s": 20, "samples": 19,
        "errors": 1, "cost_ns": 5, "frames_from": 0, "frames": [*frames, [SOURCE, 9, "load"]],
        "nodes_from": 0, "nodes": [[-1, 0], [0, 1], [0, 2]],
        "threads": [[77, "MainThread", [0, 700_000], [1, 2]]],
    }  # fmt: skip


def gpu(root: Path) -> None:
    """Steps of tf.function on a GPU, as TensorFlow 2 traces them."""
    loop = WrittenLoop(kind="function", name="train_step", steps=regular_steps(40), sampled=[2, 7])
    process = WrittenProcess(
        loops=[loop],
        events=_samples([2, 7], suffix="xplane.pb"),
        captures={_capture(at, "xplane.pb"): training_step() for at in (2, 7)},
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    write_run(root, [process])


def ranks(root: Path) -> None:
    """Eight processes on two hosts, one of which is slow."""
    processes = [
        WrittenProcess(
            pid=100 + rank,
            host=f"node{rank // 4}",
            manifest={"rank": {"source": "TF_CONFIG", "index": rank, "world": 8, "role": "worker"}},
            loops=[
                WrittenLoop(
                    kind="fit",
                    name="model",
                    steps=regular_steps(120, step_ns=STEP_NS * (2 if rank == 5 else 1)),
                    sampled=[2],
                )
            ],
            events=_samples([2], graph=FINGERPRINT),
            captures={_capture(2): run_metadata({CPU: [Node("MatMul", 0, 400)]})},
            graphs={f"{FINGERPRINT}.graph.pb": _graph(["MatMul"])},
            code={f"{FINGERPRINT}.json": json.dumps(_code(["MatMul"])).encode()},
            header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
        )
        for rank in range(8)
    ]
    write_run(root, processes)


def compiling(root: Path) -> None:
    """Training in PyTorch: functions are compiled again, and graphs break, in PyTorch's words."""
    print_reason = (
        "Failed to trace builtin operator: Dynamo does not know how to trace builtin operator "
        "`print` with argument types ['str'] (has_kwargs False)"
    )
    item_reason = (
        "Unsupported Tensor.item() call with capture_scalar_outputs=False: Dynamo does not support "
        "tracing `Tensor.item()` with config.capture_scalar_outputs=False."
    )
    size = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"
    events = [
        _compiled("Net.forward", None, None, ms=900),
        _broken("Net.forward", None, item_reason, 31),
        _compiled("Net.forward, backward", 0, None, ms=300),
        _compiled("Net.forward", 6, size, ms=400),
        _broken("Net.forward", 6, item_reason, 31),
        _broken("augmented", 6, print_reason, 12, skipped=True),
    ]
    process = WrittenProcess(
        loops=[WrittenLoop(kind="optimizer_step", name="SGD", steps=regular_steps(30))],
        events=events,
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    write_run(root, [process])


def _compiled(name: str, step: int | None, guard: str | None, *, ms: int) -> dict[str, Any]:
    return {
        "event": "compile", "work": None if step is None else 0, "step": step, "name": name,
        "count": 1, "start_ns": MONO_NS + (step or 0) * STEP_NS, "trace_ns": ms * 100_000,
        "lower_ns": ms * 200_000, "backend_ns": ms * 700_000, "cached": None,
        "first": guard is None, "changed": None, "changes": None, "guard": guard,
        "compiler": "torch.compile", "called_at": ["/home/ada/project/training/loop.py", 58],
    }  # fmt: skip


def _broken(
    name: str, step: int | None, reason: str, line: int, *, skipped: bool = False
) -> dict[str, Any]:
    return {
        "event": "graph_break", "work": None if step is None else 0, "step": step, "name": name,
        "reason": reason, "at": ["/home/ada/project/training/model.py", line], "skipped": skipped,
    }  # fmt: skip


def unsampled(root: Path) -> None:
    """Steps were counted and timed, and none was traced."""
    loop = WrittenLoop(steps=regular_steps(30))
    write_run(root, [WrittenProcess(loops=[loop], header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})])


def stepless(root: Path) -> None:
    """A process that never ran a step; no trial has its command."""
    process = WrittenProcess(header={LAYOUT.STATE_WORD: LAYOUT.FINISHED})
    write_run(root, [process], manifest={"command": ["python", "stepless.py"]})


def broken(root: Path) -> None:
    """A capture that was cut, events that are no JSON, and a process without its steps."""
    whole = run_metadata({CPU: [Node("a", 10, 20), Node("b", 30, 5)]})
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(30), sampled=[2, 5])],
        events=_samples([2, 5]),
        captures={_capture(2): whole[: len(whole) // 2], _capture(5): whole},
    )
    write_run(root, [process, WrittenProcess(pid=5000)])
    (events,) = root.glob("node7/4711-*/events.jsonl")
    events.write_text(events.read_text() + '{"event": "samp\n\x00\x01\n[]\n')
    (steps,) = root.glob("node7/5000-*/steps.bin")
    steps.write_bytes(b"\xff" * 100)


def hostile(root: Path) -> None:
    """Whatever somebody may write into a graph, and into the command of a job."""
    nodes = [Node(name, 20 * at, 15, label=name[:200]) for at, name in enumerate(HOSTILE)]
    many = [Node("same/name", 200 + at, 1) for at in range(2_000)]
    process = WrittenProcess(
        manifest={"argv": ["<script>window.hacked = 1</script>", "\u202e"]},
        loops=[
            WrittenLoop(name=name[:60], steps=regular_steps(30), sampled=[2]) for name in HOSTILE
        ],
        events=_samples([2], graph=FINGERPRINT),
        captures={_capture(2): run_metadata({CPU: nodes + many})},
        graphs={f"{FINGERPRINT}.graph.pb": _graph(HOSTILE)},
        code={f"{FINGERPRINT}.json": json.dumps(_code(HOSTILE, file=HOSTILE[0])).encode()},
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    write_run(root, [process], manifest={"command": ["python", *HOSTILE]})


MADE_UP: Mapping[str, Callable[[Path], None]] = {
    "broken": broken,
    "compiling": compiling,
    "gpu": gpu,
    "hostile": hostile,
    "ranks": ranks,
    "stepless": stepless,
    "training": training,
    "unsampled": unsampled,
}
RECORDED: Mapping[str, str] = {
    "recorded-gpu": "tfprof_testdata/run_meta",
    "recorded-tpu": "xprof/tpu_inference_2.xplane.pb",
}
EXAMPLES = ("keras_fit.py", "custom_loop.py")


def _recorded(root: Path, capture: Path) -> None:
    """A capture that somebody else recorded, as the only step of a run."""
    suffix = "xplane.pb" if capture.suffix == ".pb" else "run_metadata.pb"
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(10), sampled=[2])],
        events=_samples([2], suffix=suffix),
        captures={_capture(2, suffix): capture.read_bytes()},
        header={LAYOUT.STATE_WORD: LAYOUT.FINISHED},
    )
    write_run(root, [process])


def _real(folder: Path) -> None:
    """Record the examples with TFPROBE_TEST_PYTHON; take the runs that TFPROBE_TEST_RUNS has."""
    given = os.environ.get("TFPROBE_TEST_RUNS")
    if given:
        shutil.copytree(given, folder, dirs_exist_ok=True)
    python = os.environ.get("TFPROBE_TEST_PYTHON")
    for example in EXAMPLES if python else ():
        recorder = [sys.executable, "-m", "tfprobe", "run", "-o", str(folder), "-q", "--"]
        job = [str(python), str(ROOT / "examples" / example)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([*recorder, *job], check=True, stdout=subprocess.DEVNULL, env=environment)


def _capture(step: int, suffix: str = "run_metadata.pb") -> str:
    return f"{step:06}-session_run-0.{suffix}"


def _samples(
    steps: Sequence[int], *, suffix: str = "run_metadata.pb", graph: str | None = None
) -> list[dict[str, Any]]:
    return [
        {
            "event": "sample",
            "work": 0,
            "step": step,
            "capture": _capture(step, suffix),
            "level": "full",
            "start_ns": MONO_NS + step * STEP_NS,
            "end_ns": MONO_NS + step * STEP_NS + STEP_NS,
            "graph": graph,
        }
        for step in steps
    ]


def _graph(names: Sequence[str]) -> bytes:
    nodes = [
        Op(name, name.rpartition("/")[2][:40] or "NoOp", [names[at - 1]] if at else [], [(32, 8)])
        for at, name in enumerate(names)
    ]
    return graph_def(nodes)


def _code(names: Sequence[str], *, file: str = SOURCE) -> dict[str, Any]:
    return {
        "schema": "tfprobe.code/1",
        "files": [file, "/home/ada/net.py"],
        "functions": ["main", "layer"],
        "frames": [[0, 10, 0], [1, 5, 1]],
        "stacks": [[0], [0, 1]],
        "ops": {name: at % 2 for at, name in enumerate(names)},
        "truncated": False,
    }


def _apart(steps: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same steps with room for some that take longer."""
    first = steps[0][0]
    return [(start + 5 * (start - first), end + 5 * (start - first)) for start, end in steps]


def _later(steps: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    last = steps[-1][1]
    return [(last + start, last + end) for start, end in regular_steps(count, step_ns=STEP_NS)]
