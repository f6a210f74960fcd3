"""Lay our breakdown of a step beside xprof's, of the same XSpace: `breakdowns.py`.

Two steps of a GPU, written by hand in the form of TensorFlow's tracer and marked as xprof wants
them: one as the tracer of today names copies and kernels, one with the names that xprof looks for.
And a real step of a Keras fit on the CPU.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(HERE)]

import recordings  # noqa: E402
from run import JOBS, _tensorflow  # noqa: E402

from tests.support.captures import Ref, TraceEvent  # noqa: E402
from tests.support.gpu_traces import call, copy, gpu_trace, kernel  # noqa: E402
from tfprobe.analysis.breakdown.cycles import parts_by_loop  # noqa: E402
from tfprobe.analysis.breakdown.step_parts import GROUPS, Part  # noqa: E402
from tfprobe.formats.schema import message_class  # noqa: E402
from tfprobe.profile.reader.file import file_profile  # noqa: E402

UNIX_NS = 1_795_205_058_000_000_000
STEPS = 5
# One step of the written traces, in units of 0.1 ms, so that xprof's tenths of ms suffice.
UNIT_US = 100
NS_PER_MS = 1_000_000
# What each of xprof's means is to us.
THEIRS = {
    "infeed": (Part.INPUT_WAIT, Part.FEED, Part.HOST_PREPROCESS, Part.HOST_TO_DEVICE),
    "device_compute": (
        Part.DEVICE_COMPUTE_16BIT,
        Part.DEVICE_COMPUTE_32BIT,
        Part.DEVICE_COMPUTE_OTHER,
    ),
    "device_to_device": (Part.DEVICE_TO_DEVICE,),
    "device_collectives": (Part.COLLECTIVES,),
    "host_compute": (Part.HOST_COMPUTE,),
    "kernel_launch": (Part.KERNEL_LAUNCH,),
    "outfeed": (Part.DEVICE_TO_HOST,),
    "compile": (Part.COMPILE,),
    "other": (
        Part.SYNC_WAIT,
        Part.FETCH,
        Part.CALLBACKS,
        Part.SUMMARIES,
        Part.CHECKPOINTS,
        Part.RECORDING,
        Part.IDLE,
    ),
}


def main() -> int:
    """Print the tables."""
    assert {part for parts in THEIRS.values() for part in parts} == {
        part for parts in GROUPS.values() for part in parts
    }
    with tempfile.TemporaryDirectory() as folder:
        for title, path in (
            ("GPU, names of today's tracer", _written(folder, "today", today=True)),
            ("GPU, names that xprof looks for", _written(folder, "former", today=False)),
            ("Keras fit on the CPU", _recorded(folder)),
        ):
            _show(title, path)
    return 0


def _show(title: str, path: Path) -> None:
    theirs = _xprof(path)
    steps = [step for work in parts_by_loop(file_profile(path)) for step in work.steps]
    print(f"\n### {title}: {len(steps)} steps\n")
    for text in theirs["said"]:
        print(f"xprof says: {text.split('.')[0]}.\n")
    print("| ms a step | xprof | tfprobe |\n|---|---:|---:|")
    print(f"| step | {theirs['step_ms']:.1f} | {_mean_ms(steps, tuple(Part)):.1f} |")
    for name, parts in THEIRS.items():
        their_ms, our_ms = theirs["means"].get(f"{name}_time_ms_avg", 0.0), _mean_ms(steps, parts)
        if their_ms or our_ms:
            print(f"| {name} | {their_ms:.1f} | {our_ms:.1f} |")


def _mean_ms(steps: list[Any], parts: tuple[Part, ...]) -> float:
    total_ns = sum(step.parts.get(part, 0) for step in steps for part in parts)
    return float(total_ns / len(steps) / NS_PER_MS)


def _xprof(path: Path) -> dict[str, Any]:
    """Ask xprof in a folder of its own: it keeps its answers beside the trace."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copy(path, Path(folder) / "host.xplane.pb")
        command = [recordings.xprof_python(), str(JOBS / "xprof_steps.py"), str(copied)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _recorded(folder: str) -> Path:
    output = Path(folder) / "runs"
    job = [_tensorflow(), str(ROOT / "examples" / "keras_fit.py"), "--steps", "40"]
    launch = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(output), "--steps", "30"]
    subprocess.run([*launch, "--", *job], check=True, capture_output=True, cwd=ROOT)
    (capture,) = output.glob("*/*/*/captures/*-fit-*.xplane.pb")
    return capture


def _written(folder: str, name: str, *, today: bool) -> Path:
    """Write steps of 110 ms: 8 waiting for input, 10 in, 15 + 20 products, 10 all-reduce, 5 out."""
    streams: dict[str, list[TraceEvent]] = {"Compute": [], "MemcpyH2D": [], "MemcpyD2H": []}
    threads: dict[str, list[TraceEvent]] = {"python": [], "tf_Compute/7": []}
    for step in range(STEPS):
        _add_step(streams, threads, step, today=today)
    lines = {f"Stream #{at + 13}({kind})": each for at, (kind, each) in enumerate(streams.items())}
    space = message_class("tfprobe.xplane.XSpace")()
    space.ParseFromString(gpu_trace(lines, threads, start_ns=UNIX_NS))
    for plane in space.planes:
        for number, event in plane.event_metadata.items():
            event.id = number
        for number, stat in plane.stat_metadata.items():
            stat.id = number
    path = Path(folder) / f"{name}.xplane.pb"
    path.write_bytes(space.SerializeToString())
    return path


def _add_step(
    streams: dict[str, list[TraceEvent]],
    threads: dict[str, list[TraceEvent]],
    step: int,
    *,
    today: bool,
) -> None:
    first, number = step * 1200, step * 10
    to_device, to_host = ("MemcpyH2D", "MemcpyD2H") if today else ("MEMCPYHtoD", "MEMCPYDtoH")
    reduce = "void ring_all_reduce_kernel<float>" if today else "ncclKernel_AllReduce_RING_LL"

    def at(units: int) -> int:
        return (first + units) * UNIT_US

    def host(name: str, start: int, length: int, **stats: str | int) -> TraceEvent:
        return TraceEvent(name, at(start), length * UNIT_US, stats)

    threads["python"] += [
        host("train", 0, 1100, _r=1, step_num=step),
        host("FunctionRun", 20, 30, id=1000 + step, _pt=2, _p=5000 + step),
        call("cuStreamSynchronize", at(860), 200 * UNIT_US, correlation=number + 6),
    ]
    threads["tf_Compute/7"] += [
        host("ExecutorState::Process", 60, 700, id=1000 + step, iter_num=0, _ct=2, _c=5000 + step),
        host("IteratorGetNext:IteratorGetNext", 70, 80),
        host("m/Cast:Cast", 160, 20),
        call(
            "cuMemcpyHtoDAsync_v2",
            at(165),
            10 * UNIT_US,
            correlation=number + 1,
            details="kind_src:pageable kind_dst:device size:1048576 dest:0 async:1",
        ),
        host("m/dense/MatMul:MatMul", 270, 25),
        call("cuLaunchKernel", at(275), 8 * UNIT_US, correlation=number + 2),
        host("g/MatMul_1:MatMul", 310, 15),
        call("cuLaunchKernel", at(312), 6 * UNIT_US, correlation=number + 3),
        host("all/CollectiveReduceV2:CollectiveReduceV2", 340, 15),
        call("cuLaunchKernel", at(342), 6 * UNIT_US, correlation=number + 4),
        call("cuMemcpyDtoHAsync_v2", at(360), 6 * UNIT_US, correlation=number + 5),
    ]
    product, gradient = "ampere_sgemm_128x64_nn", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn"
    streams["Compute"] += [
        kernel(product, at(300), 200 * UNIT_US, correlation=number + 2, op="m/dense/MatMul:MatMul"),
        kernel(gradient, at(520), 150 * UNIT_US, correlation=number + 3, op="g/MatMul_1:MatMul"),
        kernel(
            reduce,
            at(680),
            100 * UNIT_US,
            correlation=number + 4,
            op="all/CollectiveReduceV2:CollectiveReduceV2",
        ),
    ]
    moved_in = copy("H2D", at(190), 100 * UNIT_US, correlation=number + 1, size=1 << 20)
    moved_out = copy("D2H", at(800), 50 * UNIT_US, correlation=number + 5, size=4096)
    streams["MemcpyH2D"].append(_named(moved_in, to_device, "m/Cast:Cast"))
    streams["MemcpyD2H"].append(_named(moved_out, to_host, "loss:Identity"))


def _named(event: TraceEvent, name: str, op: str) -> TraceEvent:
    return TraceEvent(name, event.start_us, event.duration_us, {**event.stats, "tf_op": Ref(op)})


if __name__ == "__main__":
    sys.exit(main())
