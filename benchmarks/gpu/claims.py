"""What must be reported of the planted loops that JAX and PyTorch have alike."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from answers import Document, names_line
from evidence import Evidence, Row, Value

from tfprobe.errors import Missing

_DEVICE = re.compile(r"device_|host_to_device|collectives")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+")


def of_all(found: Evidence) -> Iterator[Row]:
    """What holds of every loop: it is left alone, counted exactly, and traced as requested."""
    numbers = range(found.repeats)
    pairs = [(found.ending("bare", index), found.ending("recorded", index)) for index in numbers]
    yield found.same(
        "results, bit for bit", pairs[0][1]["stdout"].strip(), pairs[0][0]["stdout"].strip()
    )
    yield found.same(
        "stderr unchanged", all(_lines(bare) == _lines(other) for bare, other in pairs), True
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


def _lines(ending: Document) -> str:
    """Return what was written to stderr, without the times and processes that libkineto writes."""
    return _STAMP.sub("", ending["stderr"])


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


def cycle(found: Evidence, ratio: float = 0.02) -> Row:
    cycle_ns = found.recorded_cycle_ns
    reported = cycle_ns if isinstance(cycle_ns, Missing) else cycle_ns / 1e6
    return found.near("time of a step, ms", reported, found.cycle_ns / 1e6, ratio)


def plain_after(found: Evidence) -> Row:
    """Plain steps after the first window beside those before it, as in the bare program."""
    first = int(found.case.record[1].split(",")[0]) - int(found.truth["warm_up"])
    ratios = []
    for truth in (found.truth, found.bare):
        starts_ns = truth["calls_ns"]
        cycles = [after - before for before, after in itertools.pairwise(starts_ns)]
        before, after = cycles[1 : first - 1], cycles[first + 2 : first + 38]
        ratios.append(statistics.median(after) / statistics.median(before))
    return found.measured("plain steps after : before, recorded and bare", *ratios)


def kernel_bound(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    yield found.least("on the device, share", _group(found, "on"), 0.95)
    ops = found.recorded.ops(found.main)
    yield found.near(
        "float operations a step", total(ops, "float_ops"), found.truth["float_ops"], 0
    )
    cycle_ns = found.recorded_cycle_ns
    rate: Value = total(ops, "float_ops")
    if isinstance(cycle_ns, Missing):
        rate = cycle_ns
    elif not isinstance(rate, Missing):
        rate = float(rate) / cycle_ns
    true_rate = found.truth["float_ops"] / found.cycle_ns
    yield found.near("GFLOP/s", rate, true_rate, 0.03)
    # Three traced steps, and a median of many: equal only where nothing else runs, and where clocks
    # do not fall as a device gets warm.
    yield found.measured("ms of ops a step, of a step", ops_ms(found, ops), found.cycle_ns / 1e6)


def host_bound(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    if not found.is_gpu:
        yield found.no_gpu("idle between kernels, share")
        yield found.no_gpu("finding launch_bound")
        return
    busy_ms = ops_ms(found, found.recorded.ops(found.main))
    cycle_ms = found.cycle_ns / 1e6
    true = busy_ms if isinstance(busy_ms, Missing) else 1 - float(busy_ms) / cycle_ms
    shares = found.recorded.shares()
    idle: Value = shares if isinstance(shares, Missing) else 1 - _on_device(shares)
    yield found.least("idle between kernels, share", idle, 0.5)
    yield found.points("idle between kernels, share", idle, true)
    yield _finding(found, "launch_bound")


def input_bound(found: Evidence) -> Iterator[Row]:
    yield cycle(found)
    shares = found.recorded.shares()
    waits: Value = shares
    if isinstance(shares, Mapping):
        # A batch is also copied, which is no part of the planted delay.
        waits = 1.0 * sum(ns for part, ns in shares["before"].items() if part != "host_to_device")
    yield found.points("preparing input, share", waits, found.truth["input_ratio"])
    yield line_row(
        found, "line of the input", "input_line", ("input",), ("breakdown",), ("advise",)
    )
    yield plain_after(found)


def copy_bound(found: Evidence) -> Iterator[Row]:
    if not found.is_gpu:
        yield found.no_gpu("bytes, rate and memory of copies")
        return
    kinds = ("pageable", "pinned")
    for kind, name in zip(kinds, found.truth["counts"], strict=False):
        flow, steps = _copies(found, name)
        nbytes = flow if isinstance(flow, Missing) else flow["bytes"] / steps
        yield found.near(f"{name}: bytes a step", nbytes, found.truth["bytes"], 0.001)
        copy_ns = found.truth["copy_ns" if kind == "pageable" else "pinned_copy_ns"]
        rate = flow if isinstance(flow, Missing) else (flow["bytes_per_s"] or 0) / 1e9
        yield found.near(f"{name}: GB/s", rate, found.truth["bytes"] / copy_ns, 0.05)
        memory = flow if isinstance(flow, Missing) else ", ".join(flow["host_memory"])
        yield found.same(f"{name}: memory of the host", memory, kind)
    if found.truth["pinned"] is not None:
        yield found.measured("pinned memory", Missing(found.truth["pinned"]), "")


def overlap(found: Evidence) -> Iterator[Row]:
    if found.truth["pinned"] is not None:
        yield found.measured("pinned memory", Missing(found.truth["pinned"]), "")
        return
    flow, steps = _copies(found, found.main)
    nbytes = flow if isinstance(flow, Missing) else flow["bytes"] / steps
    yield found.near("bytes a step", nbytes, found.truth["bytes"], 0.001)
    hidden = flow if isinstance(flow, Missing) else flow["hidden_ratio"]
    yield found.least("hidden by products, share", hidden, 0.9)
    yield cycle(found)


def training(found: Evidence) -> Iterator[Row]:
    """What recording costs a job with the default budget."""
    ways = ("recorded", "bare")
    times = [[truth["loop_ns"] for truth in found.truths(way)] for way in ways]
    ratios = [recorded / bare for recorded, bare in zip(*times, strict=False)]
    yield found.most(f"loop, median of {len(ratios)} pairs", statistics.median(ratios), 1.01)
    yield found.most("loop, least of both", min(times[0]) / min(times[1]), 1.01)
    cpu_ns = [[truth["loop_cpu_ns"] for truth in found.truths(way)] for way in ways]
    yield found.measured("CPU time, least of both", min(cpu_ns[0]) / min(cpu_ns[1]), 1)
    lives = [
        [found.ending(way, index)["seconds"] for index in range(found.repeats)] for way in ways
    ]
    yield found.most("whole process, least of both", min(lives[0]) / min(lives[1]), 1.01)
    report = found.recorded.ask("report")
    fraction: Value = report if isinstance(report, Missing) else _overhead(report)
    yield found.measured("cost as reported, as measured", fraction, statistics.median(ratios) - 1)
    yield cycle(found)


def _overhead(report: Document) -> Value:
    (process,) = report["processes"]
    overhead = process["overhead"]
    return Missing("not in the report") if not overhead else float(overhead["fraction"])


def own_profiler(found: Evidence) -> Iterator[Row]:
    """The profile that the program takes is there, and whole."""
    words = "profiles 1 marks True"
    said = found.ending("recorded", 0)["stdout"].splitlines()
    yield found.same("the program's own profile", next(iter(said), ""), words)
    declined = {str(event.get("why")) for event in found.recorded.events("declined")}
    yield found.same("no window beside it", "the job is profiling" in declined, True)


def _on_device(shares: Document) -> float:
    """Return the share of a cycle in which a device computes or copies."""
    parts = {
        name: share for group in ("before", "on", "after") for name, share in shares[group].items()
    }
    return float(sum(share for name, share in parts.items() if _DEVICE.match(name)))


def _group(found: Evidence, group: str) -> Value:
    shares = found.recorded.shares()
    if isinstance(shares, Missing):
        return shares
    parts = shares.get(group)
    if not isinstance(parts, Mapping):
        return Missing(str(shares.get("missing") or "`breakdown` has no shares"))
    return float(sum(parts.values()))


def total(ops: list[Document] | Missing, column: str) -> Value:
    if isinstance(ops, Missing):
        return ops
    values = [op[column] for op in ops if op[column] is not None]
    return sum(values) if values else Missing(f"no op has {column}")


def ops_ms(found: Evidence, ops: list[Document] | Missing) -> Value:
    nanoseconds = total(ops, "accelerator_ns" if found.is_gpu else "cpu_ns")
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
    return found.judged("finding", said, rule, "named", lambda names, known: known in names)


def line_row(found: Evidence, what: str, key: str, *commands: tuple[str, ...]) -> Row:
    file, line = found.truth[key]
    documents = [found.recorded.ask(*command) for command in commands]
    is_named = any(names_line(document, file, line) for document in documents)
    where = f"{file}:{line}"
    asked = ", ".join(f"`{' '.join(command)}`" for command in commands)
    return found.same(what, where if is_named else Missing(f"named by none of {asked}"), where)


CLAIMS: Mapping[str, Callable[[Evidence], Iterator[Row]]] = {
    "copy_bound": copy_bound,
    "host_bound": host_bound,
    "input_bound": input_bound,
    "kernel_bound": kernel_bound,
    "overlap": overlap,
    "own_profiler": own_profiler,
    "training": training,
}
