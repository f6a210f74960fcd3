"""Render how much of their machines and accelerators processes used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.console import RenderableType

from tfprobe.analysis.core.statistics import SampleCurve
from tfprobe.analysis.system.hardware import DeviceHardware, Hardware, ProcessHardware
from tfprobe.analysis.system.thread_times import ProcessThreads, ThreadGroup
from tfprobe.errors import Missing
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

_HEIGHTS = "▁▂▃▄▅▆▇█"
_CURVE_WIDTH = 16
# Less of a CPU is not mentioned.
_LEAST_CORES = 0.005
# On a shared machine, a thread loses as much of its time to others now and then.
_LEAST_WAIT_RATIO = 0.1
# The table shows at most this many threads, by CPU time.
_MOST_THREADS = 8
_UNKNOWN = "?"
_THREAD_COLUMNS = (
    TextColumn("thread", is_number=False),
    TextColumn("CPUs"),
    TextColumn("share"),
    TextColumn("mostly at", is_number=False, may_be_cut=True),
)
_COLUMNS = (
    TextColumn("", is_number=False),
    TextColumn("mean"),
    TextColumn("p95"),
    TextColumn("max"),
    TextColumn("over time", is_number=False, may_go=True),
    TextColumn("", is_number=False, may_be_cut=True),
)


class _Row(NamedTuple):
    """An amount over time, how to write its numbers, and a remark."""

    name: str
    curve: SampleCurve | Missing
    write: Callable[[float], str]
    remark: str = ""


def hardware_parts(item: Hardware, *, width: int) -> Iterator[RenderableType]:
    """Yield the hardware tier: each process, then each accelerator."""
    known = [each for each in item.processes if not isinstance(each, Missing)]
    for process in known:
        where = f" · {process.process.host} · {process.process.label}"
        yield page.heading(
            f"Hardware{where if len(item.processes) > 1 else ''} · {_watched(process)}"
        )
        yield from _table(list(_process(process)), width)
        yield from _threads(process.by_thread, width)
    if not known:
        yield page.heading("Hardware")
        reasons = {each.reason for each in item.processes if isinstance(each, Missing)}
        yield from (page.paragraph(reason) for reason in sorted(reasons))
    if isinstance(item.devices, Missing):
        yield page.paragraph(item.devices.reason)
        return
    for device in item.devices:
        yield page.blank()
        yield page.heading(f"{device.name} {device.index} · {device.host}")
        yield from _table(list(_device(device)), width)
        if device.throttle_reasons:
            yield page.paragraph(f"clocks were held down: {_throttled(device)}")


def hardware_summary(item: Hardware) -> Iterator[RenderableType]:
    """Yield at most two lines for the report: the machine and the accelerators."""
    rows = list(_in_short(item))
    wide = max((len(label) for label, _ in rows), default=0)
    yield from (page.line(f"{label:<{wide}}  {text}") for label, text in rows)


def _in_short(item: Hardware) -> Iterator[tuple[str, str]]:
    known = [process for process in item.processes if not isinstance(process, Missing)]
    if known:
        most = max(known, key=lambda each: each.watched_ns)
        waits = _contended(most) or _switches(most)
        facts = [text for text in (_busy(most), _memory(most), waits) if text]
        if facts:
            yield "machine", ", ".join(facts)
    if not isinstance(item.devices, Missing):
        yield "accelerators", ", ".join(_in_brief(device) for device in item.devices)


def _busy(item: ProcessHardware) -> str:
    if isinstance(item.cores_busy, Missing):
        return ""
    text = numbers.digits(item.cores_busy.mean)
    if not isinstance(item.usable_cpus, Missing):
        text += f" of {numbers.plain(item.usable_cpus)}"
    text += " CPUs busy"
    throttled = item.throttled_ratio
    if not isinstance(throttled, Missing) and throttled:
        text += f" ({numbers.percent(throttled)} throttled)"
    return text


def _contended(item: ProcessHardware) -> str:
    """Say how long the first thread was ready to run and had no CPU, if that is noticeable."""
    wait = item.run_delay_ratio
    if isinstance(wait, Missing) or wait.mean < _LEAST_WAIT_RATIO:
        return ""
    return f"CPU wait {numbers.percent(wait.mean)}"


def _memory(item: ProcessHardware) -> str:
    if isinstance(item.peak_resident_bytes, Missing):
        return ""
    of = _usable_memory(item)
    whole = "" if isinstance(of, Missing) else f" of {numbers.size(of)}"
    return f"at most {numbers.size(item.peak_resident_bytes)}{whole}"


def _switches(item: ProcessHardware) -> str:
    if isinstance(item.voluntary_switches_per_step, Missing):
        return ""
    return f"{numbers.plain(item.voluntary_switches_per_step)} waits per step"


def _usable_memory(item: ProcessHardware) -> int | Missing:
    limits = (item.memory_limit_bytes, item.machine_memory_bytes)
    known = [limit for limit in limits if not isinstance(limit, Missing)]
    return min(known) if known else item.machine_memory_bytes


def _in_brief(item: DeviceHardware) -> str:
    text = f"{item.name} {item.index}"
    if not isinstance(item.utilization_ratio, Missing):
        text += f" {numbers.percent(item.utilization_ratio.mean)} busy"
    if not isinstance(item.memory_used_bytes, Missing):
        text += f", {numbers.size(round(item.memory_used_bytes.max))}"
        if not isinstance(item.memory_total_bytes, Missing):
            text += f" of {numbers.size(item.memory_total_bytes)}"
    return text


def _watched(item: ProcessHardware) -> str:
    if item.samples == 1:
        return "1 sample"
    return f"{numbers.count(item.samples)} samples in {numbers.duration(item.watched_ns)}"


def _process(item: ProcessHardware) -> Iterator[_Row]:
    yield _Row("CPUs busy", item.cores_busy, numbers.digits, _of_cpus(item))
    yield _Row("machine's CPUs", item.machine_cores_busy, numbers.digits, _of_machine(item))
    yield _Row("load, 1 min", item.load_1min, numbers.digits, _of(item.cpus, numbers.plain, "CPUs"))
    yield _Row("threads", item.threads, numbers.count, _pools(item))
    waits, preempted = item.voluntary_switches_per_step, item.involuntary_switches_per_step
    yield _Row("waits/s", item.voluntary_switches_per_s, numbers.count, _per_step(waits))
    yield _Row("preempted/s", item.involuntary_switches_per_s, numbers.count, _per_step(preempted))
    yield _Row("CPU wait", item.run_delay_ratio, numbers.percent, "first thread, ready to run")
    yield _Row("collecting", item.gc_ratio, numbers.percent, "garbage")
    yield _Row("page faults/s", item.major_faults_per_s, numbers.count, "read from storage")
    yield _Row("resident", item.resident_bytes, _size, _of_memory(item))
    yield _Row("read/s", item.read_bytes_per_s, _size, "from storage")
    yield _Row("written/s", item.written_bytes_per_s, _size, "to storage")


def _threads(item: ProcessThreads | Missing, width: int) -> Iterator[RenderableType]:
    """Yield the CPU time of the threads that used a noticeable part of a CPU."""
    if isinstance(item, Missing):
        yield page.paragraph(f"no CPU time by thread: {item.reason}")
        return
    shown = [group for group in item.groups if group.cores >= _LEAST_CORES][:_MOST_THREADS]
    rows = [
        (
            each.name if each.threads == 1 else f"{each.name} ({each.threads})",
            numbers.digits(each.cores),
            _UNKNOWN if isinstance(each.ratio, Missing) else numbers.percent(each.ratio),
            _doing(each),
        )
        for each in shown
    ]
    if rows:
        yield page.table(_THREAD_COLUMNS, rows, width=width)
    if item.unmapped:
        yield page.paragraph(
            f"{item.unmapped} Python threads cannot be separated from others: only Python 3.7 "
            "and later identify them"
        )


def _doing(item: ThreadGroup) -> str:
    """Return what a thread did, or the line it was seen at most often."""
    if item.runs_steps:
        return "runs steps"
    if not item.stands:
        return "Python" if item.is_python else ""
    stand = item.stands[0]
    return f"{stand.function} {page.short_path(stand.file)}:{stand.line}"


def _device(item: DeviceHardware) -> Iterator[_Row]:
    total, limit, fastest = item.memory_total_bytes, item.power_limit_watts, item.max_sm_clock_hz
    yield _Row("busy", item.utilization_ratio, numbers.percent)
    yield _Row("memory", item.memory_used_bytes, _size, _of(total, numbers.size))
    yield _Row("power", item.power_watts, _watts, _of(limit, _watts))
    yield _Row("SM clock", item.sm_clock_hz, _clock, _of(fastest, _clock))
    yield _Row("temperature", item.temperature_celsius, lambda value: f"{numbers.count(value)} °C")
    yield _Row("PCIe out/s", item.pcie_sent_bytes_per_s, _size, "to the host")
    yield _Row("PCIe in/s", item.pcie_received_bytes_per_s, _size, "from the host")


def _table(rows: Sequence[_Row], width: int) -> Iterator[RenderableType]:
    """Yield the known amounts, then the unknown ones by reason."""
    shown = [_shown(row, row.curve) for row in rows if not isinstance(row.curve, Missing)]
    if shown:
        yield page.table(_COLUMNS, shown, width=width)
    unknown: dict[str, list[str]] = {}
    for row in rows:
        if isinstance(row.curve, Missing):
            unknown.setdefault(row.curve.reason, []).append(row.name)
    for reason, names in unknown.items():
        yield page.paragraph(f"no {', '.join(names)}: {reason}")


def _shown(row: _Row, curve: SampleCurve) -> tuple[str, ...]:
    amounts = (row.write(each) for each in (curve.mean, curve.p95, curve.max))
    return (row.name, *amounts, _drawn(curve), row.remark)


def _drawn(curve: SampleCurve) -> str:
    """Draw a curve on one line, from 0 to its maximum; each cell is the mean of some points."""
    values = [point.value for point in curve.points]
    cells = min(len(values), _CURVE_WIDTH)
    if cells < 2 or max(values) <= 0:
        return ""
    bounds = [round(index * len(values) / cells) for index in range(cells + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in pairwise(bounds)]
    most = max(means)
    return "".join(_HEIGHTS[min(int(mean / most * 8), 7)] for mean in means)


def _of_cpus(item: ProcessHardware) -> str:
    facts = []
    if not isinstance(item.usable_cpus, Missing):
        facts.append(f"of {numbers.plain(item.usable_cpus)}")
    if not isinstance(item.throttled_ratio, Missing) and item.throttled_ratio:
        facts.append(f"{numbers.percent(item.throttled_ratio)} throttled by the cgroup")
    if not isinstance(item.system_ratio, Missing):
        facts.append(f"{numbers.percent(item.system_ratio)} in the system")
    return ", ".join(facts)


def _of_machine(item: ProcessHardware) -> str:
    """Return who else used the machine's CPUs, and what they waited for."""
    busy, own = item.machine_cores_busy, item.cores_busy
    facts = []
    if not isinstance(busy, Missing) and not isinstance(own, Missing):
        facts.append(f"{numbers.digits(max(busy.mean - own.mean, 0))} by other processes")
    for curve, what in (
        (item.machine_cores_io_wait, "waiting for storage"),
        (item.machine_cores_stolen, "taken by the hypervisor"),
    ):
        if not isinstance(curve, Missing) and curve.mean >= _LEAST_CORES:
            facts.append(f"{numbers.digits(curve.mean)} {what}")
    return ", ".join(facts)


def _pools(item: ProcessHardware) -> str:
    sizes = {"intra-op": item.intra_op_threads, "inter-op": item.inter_op_threads}
    known = {name: size for name, size in sizes.items() if not isinstance(size, Missing)}
    chosen = [f"{name} {size}" for name, size in known.items() if size]
    if known and not chosen:
        return "pools as TensorFlow sizes them"
    return f"pools: {', '.join(chosen)}" if chosen else ""


def _of_memory(item: ProcessHardware) -> str:
    facts = []
    of = _usable_memory(item)
    if not isinstance(of, Missing):
        facts.append(f"of {numbers.size(of)}")
    if not isinstance(item.peak_resident_bytes, Missing):
        facts.append(f"peak {numbers.size(item.peak_resident_bytes)}")
    return ", ".join(facts)


def _throttled(item: DeviceHardware) -> str:
    return ", ".join(
        f"{reason.reason} in {numbers.percent(reason.ratio)} of the samples"
        for reason in item.throttle_reasons
    )


def _of(value: float | Missing, write: Callable[[float], str], unit: str = "") -> str:
    return "" if isinstance(value, Missing) else f"of {write(value)} {unit}".rstrip()


def _per_step(value: float | Missing) -> str:
    return "" if isinstance(value, Missing) else f"{numbers.plain(value)} a step"


def _watts(value: float) -> str:
    return f"{numbers.count(value)} W"


def _size(value: float) -> str:
    return numbers.size(round(value))


def _clock(value: float) -> str:
    return f"{numbers.count(value / 1e6)} MHz"
