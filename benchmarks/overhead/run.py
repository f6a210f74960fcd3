"""Measure what recording costs and print one table: `python benchmarks/overhead/run.py`.

Each number is a median of pairs of processes, run by turns (A B A B ...), so that a machine that
grows slow slows both. Environments are those of the test matrix, made if they are missing.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import os
import platform
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from measure import (  # noqa: E402
    JOBS,
    Once,
    Pairs,
    job,
    loop_s,
    pairs,
    process,
    recorded_steps,
    repeated,
    triples,
    wall_s,
)

from tests.matrix.cells import CELLS, Cell  # noqa: E402
from tests.matrix.environments import Unavailable, prepare  # noqa: E402

TF1 = "tf1.15-py3.7"
TF2 = "tf2.21-py3.11"
JAX_CELLS = ("jax0.4-py3.10", "jax0.12-py3.13")
JAX = JAX_CELLS[-1]
TORCH = "torch2.13-py3.11"
# What Hugging Face's Trainer needs, and a profiler that is put in front of it.
TRAINER = Cell(
    "torch2.13-trainer-py3.11",
    "3.11",
    ("torch==2.13.0+cpu", "numpy", "transformers[torch]", "viztracer"),
)

# A trace that makes a step longer by less than this share cannot be told from noise.
NO_TRACE_SHARE = 0.02

DOORS = ("session_run", "callable", "function", "eager", "train_on_batch", "fit")


@dataclass(frozen=True, slots=True)
class Size:
    """How much to run: enough for a number to stand on, or just enough to see that all works."""

    pairs: int
    triples: int
    rounds: int
    softmax_steps: int
    session_steps: int
    by_hand_steps: int
    network_steps: dict[str, int]
    processes: int


STEPS = {"cnn": 1000, "resnet": 200, "loop": 1000, "mlp": 4000, "transformer": 800}
STEPS_OF_TORCH = {"resnet18": 60, "torch_transformer": 800, "trainer": 400}
FULL = Size(5, 9, 200, 20_000, 12_000, 500, {**STEPS, **STEPS_OF_TORCH}, 40)
QUICK = Size(
    1, 1, 20, 2_000, 2_000, 50, {**dict.fromkeys(STEPS, 60), **dict.fromkeys(STEPS_OF_TORCH, 25)}, 5
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    cell: str
    bare: str
    other: str
    cost: str
    target: str
    kept: str


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One measurement: `run` takes the interpreter of `cell`."""

    name: str
    cell: str
    run: Callable[[str, Size], Row]


def main(argv: Sequence[str]) -> int:
    """Run the benchmarks asked for and print the table as it grows."""
    options = _arguments(argv)
    size = QUICK if options.quick else FULL
    if options.pairs:
        size = dataclasses.replace(size, pairs=options.pairs, triples=options.pairs)
    chosen = [each for each in BENCHMARKS if _is_chosen(each, options.only)]
    if options.list:
        for each in chosen:
            print(f"{each.cell:16}{each.name}")
        return 0
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.machine()}, {cores} cores; medians of {size.pairs} pairs, run by turns\n")
    print("| what | where | bare | with | cost | target | kept |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    for each in chosen:
        with _announced(each):
            row = each.run(_python(each.cell), size)
        print(f"| {row.what} | {row.cell} | {row.bare} | {row.other} | {row.cost} | {row.target} "
              f"| {row.kept} |", flush=True)  # fmt: skip
        missed += row.kept == "no"
    print(f"\n{missed} of {len(chosen)} missed their target" if missed else "\nall targets kept")
    return 1 if missed and options.strict else 0


def unsampled(door: str, cell: str, python: str, size: Size) -> Row:
    """What a step costs that is not sampled: with its door and without, by turns in one process."""
    record = ["--trace-level", "off"]
    found = repeated(
        lambda: job(python, "unsampled.py", door, str(size.rounds), record=record), size.pairs
    )
    return Row(f"unsampled step, {door}", cell, f"{found['bare_us']:.1f} us",
               f"{found['hooked_us']:.1f} us", f"{found['added_us']:+.2f} us", "+1.5 us",
               _kept(found["added_us"] <= 1.5))  # fmt: skip


def unsampled_jax(cell: str, python: str, size: Size) -> Row:
    """What a call of a compiled function of JAX costs that is not sampled, as for `unsampled`."""
    record = ["--trace-level", "off"]
    found = repeated(
        lambda: job(python, "unsampled_jax.py", str(size.rounds), record=record), size.pairs
    )
    return Row("unsampled call of a compiled function", cell, f"{found['bare_us']:.1f} us",
               f"{found['hooked_us']:.1f} us", f"{found['added_us']:+.2f} us", "+2.5 us",
               _kept(found["added_us"] <= 2.5))  # fmt: skip


def unsampled_torch(python: str, size: Size) -> Row:
    """What the hooks around `Optimizer.step` cost in a step that is not sampled."""
    record = ["--trace-level", "off"]
    found = repeated(
        lambda: job(python, "unsampled_torch.py", str(size.rounds), record=record), size.pairs
    )
    return Row("unsampled training step of PyTorch", TORCH, f"{found['bare_us']:.1f} us",
               f"{found['hooked_us']:.1f} us", f"{found['added_us']:+.2f} us", "+3 us",
               _kept(found["added_us"] <= 3))  # fmt: skip


def outside(
    what: str,
    cell: str,
    command: Callable[[Size], tuple[str, ...]],
    tool: tuple[str, ...],
    python: str,
    size: Size,
) -> Row:
    """What a profiler costs that is put in front of the same job; a whole process, as `whole`.

    `{python}` in `tool` is the job's interpreter, `{folder}` one for what the profiler writes.
    """
    script, *arguments = command(size)
    job_command = [str(JOBS / script), *arguments]
    with tempfile.TemporaryDirectory() as folder:
        before = [part.format(python=python, folder=folder) for part in tool]
        program = shutil.which(before[0])
        if program is None:
            return Row(what, cell, "-", "-", f"{tool[0]} is not installed", "peer", "")
        found = pairs(
            lambda: process([python, *job_command]),
            lambda: process([program, *before[1:], *job_command]),
            size.pairs,
            wall_s,
        )
    return Row(what, cell, f"{found.plain:.2f} s", f"{found.other:.2f} s",
               f"x {found.ratio:.3f}", "peer", "")  # fmt: skip


def whole(
    what: str,
    cell: str,
    command: Callable[[Size], tuple[str, ...]],
    target_ratio: float,
    record: tuple[str, ...],
    python: str,
    size: Size,
) -> Row:
    """What a whole job costs at the default budget."""
    arguments = command(size)
    found = pairs(
        lambda: job(python, *arguments),
        lambda: job(python, *arguments, record=record),
        size.pairs,
        wall_s,
    )
    kept = _kept(found.ratio <= target_ratio)
    cost = f"x {found.ratio:.3f}, least x {found.least_ratio:.3f}"
    return Row(what, cell, f"{found.plain:.2f} s", f"{found.other:.2f} s", cost,
               f"x {target_ratio:.2f}", kept)  # fmt: skip


def stacks(
    what: str,
    cell: str,
    command: Callable[[Size], tuple[str, ...]],
    python: str,
    size: Size,
) -> Row:
    """What sampling the stacks of a job that is recorded adds to its time, as seen from outside."""
    arguments = command(size)
    found = pairs(
        lambda: job(python, *arguments, record=[]),
        lambda: job(python, *arguments, record=["--stacks"]),
        size.pairs,
        wall_s,
    )
    cost = f"x {found.ratio:.3f}, least x {found.least_ratio:.3f}"
    return Row(f"--stacks, {what}", cell, f"{found.plain:.2f} s", f"{found.other:.2f} s", cost,
               "x 1.02", _kept(found.ratio <= 1.02))  # fmt: skip


def account(
    what: str,
    cell: str,
    command: Callable[[Size], tuple[str, ...]],
    python: str,
    size: Size,
) -> Row:
    """What recording costs a job, beside what the agent says that it cost.

    Bare, counted without traces, and recorded with the default budget, by turns. The account holds
    if it differs from the measured cost by no more than the rows of bare runs do among themselves.
    """
    arguments = command(size)
    bare, off, default = triples(
        lambda: job(python, *arguments),
        lambda: job(python, *arguments, record=["--trace-level", "off"]),
        lambda: job(python, *arguments, record=[]),
        size.triples,
    )
    cost_s = _median_difference_s(default, bare)
    off_s = _median_difference_s(off, bare)
    account_s = statistics.median(once.account_s for once in default)
    plain_s = statistics.median(map(wall_s, bare))
    noise_s = statistics.median(abs(wall_s(once) - plain_s) for once in bare)
    return Row(
        f"account of {what}",
        cell,
        f"{plain_s:.2f} s, ± {noise_s * 1e3:.0f} ms",
        f"{plain_s + cost_s:.2f} s",
        f"{cost_s * 1e3:+.0f} ms (x {1 + cost_s / plain_s:.3f}), of which traces"
        f" {(cost_s - off_s) * 1e3:+.0f} ms; account {account_s * 1e3:.0f} ms",
        "account ± noise",
        _kept(abs(cost_s - account_s) <= noise_s),
    )


def aftermath(cell: str, python: str, size: Size) -> Row:
    """What a traced step costs in its process, and what it leaves behind for the steps after it.

    By the job's own stopwatch, beside the steps around: the step itself, the one after it, in which
    the watch of the time between ends, and the twenty after that.
    """
    found = recorded_steps(python, "session_steps.py", "--steps", str(size.session_steps))
    excess_ns: dict[int, list[float]] = {}
    for step in found.traced:
        around = found.durations_ns[max(step - 100, 0) : step + 100]
        usual_ns = statistics.median(around)
        for after, duration_ns in enumerate(found.durations_ns[step : step + 22]):
            excess_ns.setdefault(after, []).append(duration_ns - usual_ns)
    measured_ns = sum(excess_ns[0]) + sum(excess_ns[1])
    left_us = statistics.mean(statistics.median(excess_ns[after]) for after in range(2, 22)) / 1e3
    usual_us = statistics.median(found.durations_ns) / 1e3
    return Row(
        f"{len(found.traced)} traced steps and what they leave behind",
        cell,
        f"{usual_us:.0f} us a step",
        f"{statistics.median(excess_ns[0]) / 1e3:+.0f} us, the next"
        f" {statistics.median(excess_ns[1]) / 1e3:+.0f} us, each of the 20 after {left_us:+.1f} us",
        f"{measured_ns / 1e6:.1f} ms; account {found.account_ns / 1e6:.1f} ms",
        "account ± 20 %",
        _kept(abs(measured_ns - found.account_ns) <= 0.2 * measured_ns),
    )


def _median_difference_s(some: Sequence[Once], others: Sequence[Once]) -> float:
    pairs_s = zip(map(wall_s, some), map(wall_s, others), strict=True)
    return statistics.median(one - other for one, other in pairs_s)


def peer(
    what: str,
    cell: str,
    command: Callable[[Size], tuple[str, ...]],
    flags: tuple[str, ...],
    python: str,
    size: Size,
) -> Row:
    """What another way to profile the same loop costs. Loops alone, for it may run fewer steps."""
    arguments = command(size)
    found = pairs(
        lambda: job(python, *arguments),
        lambda: job(python, *arguments, *flags),
        size.pairs,
        loop_s,
    )
    return Row(what, cell, f"{found.plain:.2f} s", f"{found.other:.2f} s", f"x {found.ratio:.2f}",
               "peer", "")  # fmt: skip


def sampled(kind: str, cell: str, python: str, size: Size) -> Row:
    """What tfprobe adds to TensorFlow's own cost of tracing a step."""
    found = repeated(
        lambda: job(python, "sampled.py", kind, str(size.rounds), record=["--every", "1"]),
        size.pairs,
    )
    what = f"sampled step, {kind}, beside TensorFlow's own trace"
    with_trace = f"{found['by_hand_us']:.0f} us", f"{found['ours_us']:.0f} us"
    added_us, trace_us = found["added_us"], found["trace_us"]
    if trace_us < NO_TRACE_SHARE * found["bare_us"]:
        # Ten per cent of a trace that costs nothing is nothing anybody could measure.
        return Row(what, cell, *with_trace, f"{added_us:+.0f} us of a trace lost in noise",
                   "+10 %", "?")  # fmt: skip
    return Row(what, cell, *with_trace, f"{added_us / trace_us:+.1%} of {trace_us:.0f} us", "+10 %",
               _kept(added_us <= 0.10 * trace_us))  # fmt: skip


def startup(cell: str, python: str, size: Size) -> Row:
    """What a Python process of a job costs that never imports TensorFlow."""
    with tempfile.TemporaryDirectory() as folder:
        process([sys.executable, "-m", "tfprobe", "run", "-q", "-o", folder, "--", "true"])
        boot = next(Path(folder).glob("*/boot"))
        found = pairs(
            lambda: process([python, "-c", "pass"]),
            lambda: process([python, "-c", "pass"], {"PYTHONPATH": str(boot)}),
            size.processes,
            wall_s,
        )
    return _milliseconds("python without TensorFlow", cell, found, 3)


def launcher(cell: str, _: str, size: Size) -> Row:
    """What `tfprobe run -- true` takes."""
    program = Path(sys.executable).with_name("tfprobe")
    start = [str(program)] if program.exists() else [sys.executable, "-m", "tfprobe"]
    with tempfile.TemporaryDirectory() as folder:
        found = pairs(
            lambda: process(["true"]),
            lambda: process([*start, "run", "-q", "-o", folder, "--", "true"]),
            size.processes,
            wall_s,
        )
    plain, other = (f"{seconds * 1e3:.1f} ms" for seconds in (found.plain, found.other))
    return Row(
        "`tfprobe run -- true`", cell, plain, other, other, "100 ms", _kept(found.other <= 0.1)
    )


def _softmax(size: Size) -> tuple[str, ...]:
    return ("softmax.py", "--steps", str(size.softmax_steps))


def _softmax_by_hand(size: Size) -> tuple[str, ...]:
    return ("softmax.py", "--steps", str(size.by_hand_steps))


def _network(name: str, size: Size) -> tuple[str, ...]:
    return ("networks.py", name, "--steps", str(size.network_steps[name]))


def _network_jax(name: str, size: Size) -> tuple[str, ...]:
    return ("networks_jax.py", name, "--steps", str(size.network_steps[name]))


def _network_torch(name: str, size: Size) -> tuple[str, ...]:
    return ("networks_torch.py", name, "--steps", str(size.network_steps[name]))


def _unsampled(door: str, cell: str) -> Benchmark:
    return Benchmark(f"unsampled {door}", cell, functools.partial(unsampled, door, cell))


def _whole(
    what: str,
    cell: str,
    command: Callable[[Size], tuple[str, ...]],
    target_ratio: float,
    record: tuple[str, ...] = (),
) -> Benchmark:
    return Benchmark(
        f"whole {what}", cell, functools.partial(whole, what, cell, command, target_ratio, record)
    )


def _account(what: str, cell: str, command: Callable[[Size], tuple[str, ...]]) -> Benchmark:
    return Benchmark(f"account {what}", cell, functools.partial(account, what, cell, command))


def _stacks(what: str, cell: str, command: Callable[[Size], tuple[str, ...]]) -> Benchmark:
    return Benchmark(f"stacks {what}", cell, functools.partial(stacks, what, cell, command))


def _peer(
    what: str, cell: str, command: Callable[[Size], tuple[str, ...]], *flags: str
) -> Benchmark:
    return Benchmark(f"peer {what}", cell, functools.partial(peer, what, cell, command, flags))


_cnn = functools.partial(_network, "cnn")
_mlp = functools.partial(_network_jax, "mlp")
_transformer = functools.partial(_network_jax, "transformer")
_resnet18 = functools.partial(_network_torch, "resnet18")
_torch_transformer = functools.partial(_network_torch, "torch_transformer")
_PY_SPY = ("py-spy", "record", "--output", "{folder}/stacks.svg", "--", "{python}")
_VIZTRACER = ("{python}", "-m", "viztracer", "--quiet", "-o", "{folder}/trace.json", "--")


def _outside(
    what: str, cell: str, command: Callable[[Size], tuple[str, ...]], *tool: str
) -> Benchmark:
    return Benchmark(f"peer {what}", cell, functools.partial(outside, what, cell, command, tool))


def _trainer(size: Size) -> tuple[str, ...]:
    return ("trainer_torch.py", "--steps", str(size.network_steps["trainer"]))


BENCHMARKS = (
    _whole("Keras CNN", TF2, _cnn, 1.01),
    _whole("ResNet-20-like", TF2, functools.partial(_network, "resnet"), 1.01),
    _whole("custom loop", TF2, functools.partial(_network, "loop"), 1.01),
    _whole("MNIST softmax, Session", TF1, _softmax, 1.02),
    _whole("MNIST softmax, Session", TF2, _softmax, 1.02),
    _stacks("Keras CNN", TF2, _cnn),
    _stacks("custom loop", TF2, functools.partial(_network, "loop")),
    _stacks("MNIST softmax, Session", TF1, _softmax),
    Benchmark("aftermath", TF1, functools.partial(aftermath, TF1)),
    Benchmark("aftermath", TF2, functools.partial(aftermath, TF2)),
    _account("MNIST softmax, Session", TF1, _softmax),
    _account("MNIST softmax, Session", TF2, _softmax),
    _account("custom loop", TF2, functools.partial(_network, "loop")),
    _peer(
        "FULL_TRACE and `Profiler.add_step` by hand", TF1, _softmax_by_hand, "--tool", "add_step"
    ),
    _peer("`tf.contrib.tfprof.ProfileContext`", TF1, _softmax, "--tool", "profile_context"),
    _peer("`TensorBoard(profile_batch=(20, 40))`, Keras CNN", TF2, _cnn, "--tensorboard"),
    _whole("flax MLP", JAX, _mlp, 1.01),
    _whole("transformer in flax", JAX, _transformer, 1.01),
    _peer("`jax.profiler` around ten steps, flax MLP", JAX, _mlp, "--profiler"),
    _peer("`jax.profiler` around ten steps, transformer in flax", JAX, _transformer, "--profiler"),
    _outside("`py-spy record`, flax MLP", JAX, _mlp, *_PY_SPY),
    _outside("`py-spy record`, transformer in flax", JAX, _transformer, *_PY_SPY),
    *(
        Benchmark("unsampled jax", cell, functools.partial(unsampled_jax, cell))
        for cell in JAX_CELLS
    ),
    _whole("ResNet-18 in PyTorch", TORCH, _resnet18, 1.01),
    _whole("transformer in PyTorch", TORCH, _torch_transformer, 1.01),
    _peer("`torch.profiler` with a schedule, ResNet-18", TORCH, _resnet18, "--profiler"),
    _peer("`torch.profiler` with a schedule, transformer", TORCH, _torch_transformer, "--profiler"),
    _outside("`py-spy record`, ResNet-18", TRAINER.name, _resnet18, *_PY_SPY),
    _outside("`viztracer`, ResNet-18", TRAINER.name, _resnet18, *_VIZTRACER),
    _whole("Trainer of transformers", TRAINER.name, _trainer, 1.01),
    _peer("`torch.profiler` with a schedule, Trainer", TRAINER.name, _trainer, "--profiler"),
    _outside("`py-spy record`, Trainer", TRAINER.name, _trainer, *_PY_SPY),
    _outside("`viztracer`, Trainer", TRAINER.name, _trainer, *_VIZTRACER),
    Benchmark("unsampled torch", TORCH, unsampled_torch),
    *(_unsampled(door, cell) for cell in (TF1, TF2) for door in DOORS),
    Benchmark("sampled session", TF1, functools.partial(sampled, "session", TF1)),
    Benchmark("sampled session", TF2, functools.partial(sampled, "session", TF2)),
    Benchmark("sampled function", TF2, functools.partial(sampled, "function", TF2)),
    Benchmark("startup", TF1, functools.partial(startup, TF1)),
    Benchmark("startup", TF2, functools.partial(startup, TF2)),
    Benchmark("launcher", TF2, functools.partial(launcher, "-")),
)


def _milliseconds(what: str, cell: str, found: Pairs, target_ms: float) -> Row:
    added_ms = found.difference * 1e3
    return Row(what, cell, f"{found.plain * 1e3:.1f} ms", f"{found.other * 1e3:.1f} ms",
               f"{added_ms:+.1f} ms", f"+{target_ms} ms", _kept(added_ms <= target_ms))  # fmt: skip


def _kept(yes: bool) -> str:
    return "yes" if yes else "no"


def _is_chosen(benchmark: Benchmark, wanted: Sequence[str]) -> bool:
    text = f"{benchmark.name} {benchmark.cell}".lower()
    return not wanted or any(each.lower() in text for each in wanted)


@functools.cache
def _python(cell: str) -> str:
    try:
        return str(prepare(next(each for each in (*CELLS, TRAINER) if each.name == cell)))
    except Unavailable as error:
        raise SystemExit(f"{cell} cannot be had here: {error}") from error


@contextlib.contextmanager
def _announced(benchmark: Benchmark) -> Iterator[None]:
    """Say on stderr what is being measured, where somebody watches."""
    if sys.stderr.isatty():
        print(f"{benchmark.name} in {benchmark.cell} ...", end="\r", file=sys.stderr, flush=True)
    yield


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("-n", "--pairs", type=int, metavar="N", help="pairs for each number")
    parser.add_argument("--quick", action="store_true", help="see that all works; means nothing")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only benchmarks with TEXT in their name or environment; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks and stop")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
