"""What tfprobe says of each loop, beside what is true of it: one row for each claim."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answers import Document, Recorded, names_line
from recordings import CASES, Case

from tfprobe.errors import Missing

RIGHT, WRONG, MISSING, NOT_APPLICABLE = "right", "WRONG", "missing", "n/a"
MEASURED = "measured"
NEEDS_GPU = "needs a GPU"

Value = float | int | str | bool | Missing


@dataclass(frozen=True, slots=True)
class Row:
    """One claim: what tfprobe says, what is true, and whether that is near enough."""

    case: str
    what: str
    reported: Value
    true: Value
    target: str
    verdict: str

    @property
    def reason(self) -> str:
        """Return why a value is missing."""
        return " ".join(v.reason for v in (self.reported, self.true) if isinstance(v, Missing))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is left of one case: what was recorded, what is true, and how the processes ended.

    `truth` is that of the first recorded process, by its own clock; `bare` that of the first bare
    one.
    """

    case: Case
    folder: Path
    recorded: Recorded
    truth: Document
    bare: Document
    is_gpu: bool

    def ending(self, way: str, number: int) -> Document:
        """Return how a process ended."""
        document: Document = json.loads(
            (self.folder / f"{way}-{number}.ending.json").read_text(encoding="utf-8")
        )
        return document

    def truths(self, way: str) -> list[Document]:
        """Return what is true of each process of a way."""
        paths = sorted(self.folder.glob(f"{way}-*.truth.json"))
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    @property
    def cycle_ns(self) -> float:
        """The usual time of a call, by the program's own clock, between two of its waits.

        Where each stretch has a traced step, it is that of the bare program.
        """
        stretches = self.plain_stretches or self.bare["stretches"]
        return statistics.median(ns / steps for _, steps, ns in stretches) / self.calls

    @property
    def recorded_cycle_ns(self) -> float | Missing:
        """The same as recorded: from the end of one wait to that of the next."""
        if not self.plain_stretches:
            return self.recorded.cycle_ns(self.main)
        cycles = []
        for first, steps, _ in self.plain_stretches:
            begin = (first + int(self.truth["warm_up"])) * self.calls
            end = begin + steps * self.calls - 1
            taken_ns = self.recorded.stretch_ns(self.main, begin, end)
            if isinstance(taken_ns, Missing):
                return taken_ns
            cycles.append(taken_ns / (steps * self.calls))
        return statistics.median(cycles)

    @property
    def calls(self) -> int:
        """How many calls of the recorded function make a step of the program."""
        return int(self.truth.get("calls_a_step", 1))

    @property
    def plain_stretches(self) -> list[tuple[int, int, int]]:
        """First step, steps and ns between two waits of the program.

        None has a traced step, which runs alone, nor one before it, which ends with its trace.
        """
        warm_up = int(self.truth["warm_up"])
        traced = [
            int(event["step"]) // self.calls - warm_up for event in self.recorded.events("sample")
        ]
        return [
            (first, steps, ns)
            for first, steps, ns in self.truth["stretches"]
            if not any(first - 1 <= step < first + steps for step in traced)
        ]

    @property
    def main(self) -> str:
        """The name of the function that runs the steps, the first one counted."""
        return str(next(iter(self.truth["counts"])))

    def near(self, what: str, reported: Value, true: Value, ratio: float) -> Row:
        """Compare numbers that may differ by a share of the true one."""
        return self._judged(
            what, reported, true, f"within {ratio:.0%}" if ratio else "exact", _is_near(ratio)
        )

    def points(self, what: str, reported: Value, true: Value, points: float = 3) -> Row:
        """Compare shares that may differ by so many points."""
        return self._judged(
            what,
            reported,
            true,
            f"within {points:g} points",
            lambda said, known: abs(float(said) - float(known)) <= points / 100,
        )

    def least(self, what: str, reported: Value, least: float) -> Row:
        """Compare a number with the least that it may be."""
        return self._judged(what, reported, least, "at least", lambda said, known: said >= known)

    def most(self, what: str, reported: Value, most: float) -> Row:
        """Compare a number with the most that it may be."""
        return self._judged(what, reported, most, "at most", lambda said, known: said <= known)

    def same(self, what: str, reported: Value, true: Value) -> Row:
        """Compare what must be equal."""
        return self._judged(what, reported, true, "equal", lambda said, known: said == known)

    def measured(self, what: str, value: Value, beside: Value) -> Row:
        """Show two numbers without a target."""
        is_missing = isinstance(value, Missing) or isinstance(beside, Missing)
        return Row(self.case.name, what, value, beside, "", MISSING if is_missing else MEASURED)

    def no_gpu(self, what: str) -> Row:
        """Name a claim that this machine cannot test."""
        nothing = Missing(NEEDS_GPU)
        return Row(self.case.name, what, nothing, nothing, "", NOT_APPLICABLE)

    def _judged(
        self,
        what: str,
        reported: Value,
        true: Value,
        target: str,
        judge: Callable[[Any, Any], bool],  # Any: both are of the type that the claim is about
    ) -> Row:
        if isinstance(reported, Missing) or isinstance(true, Missing):
            return Row(self.case.name, what, reported, true, target, MISSING)
        verdict = RIGHT if judge(reported, true) else WRONG
        return Row(self.case.name, what, reported, true, target, verdict)


def _is_near(ratio: float) -> Callable[[Any, Any], bool]:
    return lambda said, known: abs(said - known) <= ratio * abs(known)


def all_rows(folder: Path, python: str) -> Iterator[Row]:
    """Judge every case that left something in a folder."""
    machine = json.loads((folder / "machine.json").read_text(encoding="utf-8"))
    is_gpu = machine["platform"] != "cpu"
    judged: dict[str, Evidence] = {}
    for case in (case for case in CASES if case.name in machine["cases"]):
        evidence = _evidence(case, folder / case.name, python, is_gpu=is_gpu)
        if isinstance(evidence, Missing):
            verdict = NOT_APPLICABLE if evidence.reason == NEEDS_GPU else MISSING
            yield Row(case.name, "the loop", evidence, evidence, "", verdict)
            continue
        judged[case.name] = evidence
        for claims in (_of_all, CLAIMS[case.loop]):
            yield from _tried(claims, evidence)
    yield from _command_buffers(judged)


def _tried(claims: Callable[[Evidence], Iterator[Row]], evidence: Evidence) -> Iterator[Row]:
    """Judge; an answer of another shape than expected costs its rows, and no others."""
    try:
        yield from claims(evidence)
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        why = Missing(f"reading ended with {type(problem).__name__}: {problem}")
        yield Row(evidence.case.name, "further rows", why, why, "", WRONG)


def _evidence(case: Case, folder: Path, python: str, *, is_gpu: bool) -> Evidence | Missing:
    if case.is_for_gpu and not is_gpu:
        return Missing(NEEDS_GPU)
    if not folder.is_dir():
        return Missing("it was not run")
    for way in ("bare", "recorded"):
        ending = json.loads((folder / f"{way}-0.ending.json").read_text(encoding="utf-8"))
        if ending["status"] != 0:
            last_words = (ending["stderr"].strip().splitlines() or ["nothing"])[-1]
            return Missing(f"the {way} program ended with {ending['status']}: {last_words}"[:200])
    runs = sorted((folder / "runs").glob("*/run.json"))
    if not runs:
        return Missing("the recorded program left no run")
    truth, bare = (
        json.loads((folder / f"{way}-0.truth.json").read_text(encoding="utf-8"))
        for way in ("recorded", "bare")
    )
    return Evidence(case, folder, Recorded(runs[0].parent, python), truth, bare, is_gpu)


def _of_all(found: Evidence) -> Iterator[Row]:
    """What holds of every loop: it is left alone, counted exactly, and traced as requested."""
    numbers = range(found.case.repeats)
    pairs = [(found.ending("bare", index), found.ending("recorded", index)) for index in numbers]
    yield found.same(
        "results, bit for bit", pairs[0][1]["stdout"].strip(), pairs[0][0]["stdout"].strip()
    )
    yield found.same(
        "stderr unchanged", all(bare["stderr"] == other["stderr"] for bare, other in pairs), True
    )
    for name, true in found.truth["counts"].items():
        yield found.near(f"steps of {name}", found.recorded.count(name), true, 0)
    yield found.same("errors of the agent", len(found.recorded.events("error")), 0)
    traced = found.recorded.events("sample")
    declined = sorted({str(event.get("why")) for event in found.recorded.events("declined")})
    if found.case.record[:1] == ("--steps",):
        wanted = len(found.case.record[1].split(",")) * len(found.truth["counts"])
        yield found.near("traced steps", len(traced) if traced else _why(declined), wanted, 0)
    costs = [event["cost_ns"] / 1e6 for event in traced if event.get("cost_ns") is not None]
    first = costs[0] if costs else Missing("no step was traced")
    later = statistics.median(costs[1:]) if costs[1:] else Missing("no second step was traced")
    yield found.measured("cost of the first window, later ones; ms", first, later)
    yield found.measured(
        "threads, recorded and bare", found.truth["threads"], found.bare["threads"]
    )
    yield from _nvml(found)


def _why(declined: Sequence[str]) -> Missing:
    return Missing("declined: " + "; ".join(declined) if declined else "no step was traced")


def _nvml(found: Evidence) -> Iterator[Row]:
    if not found.is_gpu:
        return
    samples = [device for line in found.recorded.machine() for device in line["devices"]]
    if not samples:
        yield found.measured("NVML: use and memory", Missing("no sample of NVML"), "")
        return
    busiest = max(sample.get("utilization_ratio") or 0.0 for sample in samples)
    fullest = max(sample.get("memory_used_bytes") or 0 for sample in samples)
    yield found.measured(f"NVML, {len(samples)} samples: most use, most bytes", busiest, fullest)


def _cycle(found: Evidence, ratio: float = 0.02) -> Row:
    cycle_ns = found.recorded_cycle_ns
    reported = cycle_ns if isinstance(cycle_ns, Missing) else cycle_ns / 1e6
    return found.near("time of a step, ms", reported, found.cycle_ns / 1e6, ratio)


def _plain_after(found: Evidence) -> Row:
    """Plain steps after the first window beside those before it, as in the bare program."""
    first = int(found.case.record[1].split(",")[0]) - int(found.truth["warm_up"])
    ratios = []
    for truth in (found.truth, found.bare):
        starts_ns = truth["calls_ns"]
        cycles = [after - before for before, after in itertools.pairwise(starts_ns)]
        before, after = cycles[1 : first - 1], cycles[first + 2 : first + 38]
        ratios.append(statistics.median(after) / statistics.median(before))
    return found.measured("plain steps after : before, recorded and bare", *ratios)


def _kernel_bound(found: Evidence) -> Iterator[Row]:
    yield _cycle(found)
    yield found.least("on the device, share", _group(found, "on"), 0.95)
    ops = found.recorded.ops(found.main)
    yield found.near("float operations a step", _sum(ops, "float_ops"), found.truth["float_ops"], 0)
    cycle_ns = found.recorded_cycle_ns
    rate: Value = _sum(ops, "float_ops")
    if isinstance(cycle_ns, Missing):
        rate = cycle_ns
    elif not isinstance(rate, Missing):
        rate = float(rate) / cycle_ns
    true_rate = found.truth["float_ops"] / found.cycle_ns
    yield found.near("GFLOP/s", rate, true_rate, 0.03)
    op_ms, cycle_ms = _op_ms(found, ops), found.cycle_ns / 1e6
    if found.is_gpu:
        yield found.near("ms of ops a step", op_ms, cycle_ms, 0.02)
    else:  # three traced steps, and a median of many: equal only where nothing else runs
        yield found.measured("ms of ops a step, of a step", op_ms, cycle_ms)


def _host_bound(found: Evidence) -> Iterator[Row]:
    yield _cycle(found)
    if not found.is_gpu:
        yield found.no_gpu("idle between kernels, share")
        yield found.no_gpu("finding launch_bound")
        return
    busy_ms = _op_ms(found, found.recorded.ops(found.main))
    cycle_ms = found.cycle_ns / 1e6
    true = busy_ms if isinstance(busy_ms, Missing) else 1 - float(busy_ms) / cycle_ms
    on = _group(found, "on")
    idle: Value = on if isinstance(on, Missing) else 1 - float(on)
    yield found.least("idle between kernels, share", idle, 0.5)
    yield found.points("idle between kernels, share", idle, true)
    yield _finding(found, "launch_bound")


def _input_bound(found: Evidence) -> Iterator[Row]:
    yield _cycle(found)
    yield found.points(
        "before the device, share", _group(found, "before"), found.truth["input_ratio"]
    )
    yield _line(found, "line of the iterator", "input_line", ("input",), ("breakdown",))
    yield _plain_after(found)


def _sync_bound(found: Evidence) -> Iterator[Row]:
    yield _cycle(found)
    loop = found.recorded.loop(found.main)
    waits: Value = Missing("`report` counts no waits of this loop")
    if isinstance(loop, Missing):
        waits = loop
    elif loop.get("queue"):
        waits = int(loop["queue"]["waits"])
    if found.is_gpu:
        yield found.near("waits of the host", waits, found.truth["waits"], 0)
    else:  # a value may be there already
        yield found.most("waits of the host", waits, found.truth["waits"])
    yield _line(found, "line that waits", "wait_line", ("advise",), ("breakdown",), ("steps",))


def _copy_bound(found: Evidence) -> Iterator[Row]:
    if not found.is_gpu:
        yield found.no_gpu("bytes, rate and memory of copies")
        return
    names = ["pageable_step"] + (["pinned_step"] if found.truth["pinned"] is None else [])
    for name in names:
        flow, steps = _copies(found, name)
        nbytes = flow if isinstance(flow, Missing) else flow["bytes"] / steps
        yield found.near(f"{name}: bytes a step", nbytes, found.truth["bytes"], 0.001)
        copy_ns = found.truth["copy_ns" if name == "pageable_step" else "pinned_copy_ns"]
        rate = flow if isinstance(flow, Missing) else (flow["bytes_per_s"] or 0) / 1e9
        yield found.near(f"{name}: GB/s", rate, found.truth["bytes"] / copy_ns, 0.05)
        kind = "pageable" if name == "pageable_step" else "pinned"
        memory = flow if isinstance(flow, Missing) else ", ".join(flow["host_memory"])
        yield found.same(f"{name}: memory of the host", memory, kind)
    if found.truth["pinned"] is not None:
        yield found.measured("pinned memory", Missing(found.truth["pinned"]), "")


def _overlap(found: Evidence) -> Iterator[Row]:
    if found.truth["pinned"] is not None:
        yield found.measured("pinned memory", Missing(found.truth["pinned"]), "")
        return
    flow, steps = _copies(found, found.main)
    nbytes = flow if isinstance(flow, Missing) else flow["bytes"] / steps
    yield found.near("bytes a step", nbytes, found.truth["bytes"], 0.001)
    hidden = flow if isinstance(flow, Missing) else flow["hidden_ratio"]
    yield found.least("hidden by products, share", hidden, 0.9)
    yield _cycle(found)


def _asynchronous(found: Evidence) -> Iterator[Row]:
    yield _cycle(found)
    loop = found.recorded.loop(found.main)
    waits: Value = Missing("`report` counts no waits of this loop")
    if isinstance(loop, Mapping) and loop.get("queue"):
        waits = int(loop["queue"]["waits"])
    yield found.near("waits of the host", waits, found.truth["timed_steps"] // 50 + 1, 0)


def _command_buffer(found: Evidence) -> Iterator[Row]:
    yield _cycle(found)
    ops = found.recorded.ops(found.main)
    yield found.near("float operations a step", _sum(ops, "float_ops"), found.truth["float_ops"], 0)
    yield _plain_after(found)


def _command_buffers(judged: Mapping[str, Evidence]) -> Iterator[Row]:
    """Kernels are counted alike with and without command buffers."""
    found, without = judged.get("command_buffer"), judged.get("no_command_buffer")
    if found is None or without is None:
        return
    runs = [_sum(side.recorded.ops(side.main), "runs") for side in (found, without)]
    yield found.near("kernels a step, as without command buffers", runs[0], runs[1], 0)


def _memory(found: Evidence) -> Iterator[Row]:
    answer = found.recorded.ask("memory", "--loop", found.main)
    peak: Value = answer if isinstance(answer, Missing) else Missing("no allocator in the capture")
    lifetime: Value = peak
    if isinstance(answer, Mapping) and answer["allocators"]:
        program = max(answer["allocators"], key=lambda item: item["peak"]["bytes"])
        peak = program["peak"]["bytes"]
        most = [item["lifetime_peak_bytes"] for item in answer["allocators"]]
        known = [value for value in most if value is not None]
        lifetime = max(known) if known else Missing("`memory` has no peak of the process's life")
    planned = found.truth.get("planned_bytes")
    true: Value = Missing("this JAX has no memory analysis") if planned is None else planned
    yield found.near("peak of the program, bytes", peak, true, 0.01)
    if found.truth["peak_bytes"] is None:
        yield found.no_gpu("peak of the device, bytes")
    else:
        yield found.near("peak of the device, bytes", lifetime, found.truth["peak_bytes"], 0.01)
    yield _cycle(found)
    yield _plain_after(found)


def _training(found: Evidence) -> Iterator[Row]:
    """What recording costs a job with the default budget."""
    ways = ("recorded", "bare")
    times = [[truth["loop_ns"] for truth in found.truths(way)] for way in ways]
    ratios = [recorded / bare for recorded, bare in zip(*times, strict=False)]
    yield found.most(f"loop, median of {len(ratios)} pairs", statistics.median(ratios), 1.01)
    yield found.most("loop, least of both", min(times[0]) / min(times[1]), 1.01)
    cpu_ns = [[truth["loop_cpu_ns"] for truth in found.truths(way)] for way in ways]
    yield found.measured("CPU time, least of both", min(cpu_ns[0]) / min(cpu_ns[1]), 1)
    lives = [
        [found.ending(way, index)["seconds"] for index in range(found.case.repeats)] for way in ways
    ]
    yield found.most("whole process, least of both", min(lives[0]) / min(lives[1]), 1.01)
    report = found.recorded.ask("report")
    fraction: Value = report if isinstance(report, Missing) else _overhead(report)
    yield found.measured("cost as reported, as measured", fraction, statistics.median(ratios) - 1)
    yield _cycle(found)


def _overhead(report: Document) -> Value:
    (process,) = report["processes"]
    overhead = process["overhead"]
    return Missing("not in the report") if not overhead else float(overhead["fraction"])


def _own_profiler(found: Evidence) -> Iterator[Row]:
    """The profile that the program takes is there, and whole."""
    words = "profiles 1 marks True"
    said = found.ending("recorded", 0)["stdout"].splitlines()
    yield found.same("the program's own profile", next(iter(said), ""), words)
    declined = {str(event.get("why")) for event in found.recorded.events("declined")}
    yield found.same("no window beside it", "the job is profiling" in declined, True)


def _group(found: Evidence, group: str) -> Value:
    shares = found.recorded.shares()
    if isinstance(shares, Missing):
        return shares
    parts = shares.get(group)
    if not isinstance(parts, Mapping):
        return Missing(str(shares.get("missing") or "`breakdown` has no shares"))
    return float(sum(parts.values()))


def _sum(ops: list[Document] | Missing, column: str) -> Value:
    if isinstance(ops, Missing):
        return ops
    values = [op[column] for op in ops if op[column] is not None]
    return sum(values) if values else Missing(f"no op has {column}")


def _op_ms(found: Evidence, ops: list[Document] | Missing) -> Value:
    nanoseconds = _sum(ops, "accelerator_ns" if found.is_gpu else "cpu_ns")
    return nanoseconds if isinstance(nanoseconds, Missing) else float(nanoseconds) / 1e6


def _copies(found: Evidence, name: str) -> tuple[Document | Missing, int]:
    """Return the copies to the device in all traced steps of a loop, and how many these are."""
    answer = found.recorded.ask("transfers", "--loop", name)
    if isinstance(answer, Missing):
        return answer, 0
    if answer["transfers"] is None:
        return Missing(str(answer["missing"]["transfers"])), 0
    for flow in answer["transfers"]["directions"]:
        if flow["direction"] == "host_to_device" and flow["count"]:
            return flow, int(answer["sampled_steps"])
    return Missing("no copy to the device in the traced steps"), 0


def _finding(found: Evidence, rule: str) -> Row:
    answer = found.recorded.ask("advise")
    said: Value
    if isinstance(answer, Missing):
        said = answer
    else:
        skipped = [item["reason"] for item in answer["unchecked"] if item["rule"] == rule]
        rules = ", ".join(finding["rule"] for finding in answer["findings"])
        said = Missing(skipped[0]) if skipped else rules or "none"
    return found._judged("finding", said, rule, "named", lambda names, known: known in names)


def _line(found: Evidence, what: str, key: str, *commands: tuple[str, ...]) -> Row:
    file, line = found.truth[key]
    documents = [found.recorded.ask(*command) for command in commands]
    is_named = any(names_line(document, file, line) for document in documents)
    where = f"{file}:{line}"
    asked = ", ".join(f"`{' '.join(command)}`" for command in commands)
    return found.same(what, where if is_named else Missing(f"named by none of {asked}"), where)


CLAIMS: Mapping[str, Callable[[Evidence], Iterator[Row]]] = {
    "asynchronous": _asynchronous,
    "command_buffer": _command_buffer,
    "copy_bound": _copy_bound,
    "host_bound": _host_bound,
    "input_bound": _input_bound,
    "kernel_bound": _kernel_bound,
    "memory": _memory,
    "overlap": _overlap,
    "own_profiler": _own_profiler,
    "sync_bound": _sync_bound,
    "training": _training,
}
