"""Write the tiers of a run as tables of a Markdown page; times in ms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfprobe.analysis.core.statistics import SampleCurve
from tfprobe.analysis.system.application import ActivityUse, ProcessActivities
from tfprobe.analysis.system.hardware import DeviceHardware, Hardware, ProcessHardware
from tfprobe.analysis.system.runtime import KernelLaunches, Runtime
from tfprobe.errors import Missing
from tfprobe.profile.profile import Process
from tfprobe.report.documents.tiers import Tiers

_NS_PER_MS = 1e6
_BYTES_PER_MIB = 2**20
_HZ_PER_MHZ = 1e6
_SHOWN = 20
_UNKNOWN = "–"


def tables(tiers: Tiers) -> Iterator[str]:
    """Yield the tables of application, runtime and hardware; ops have tables of their own."""
    yield from ("", "## Activities")
    for item in tiers.application:
        yield from _activities(item)
    yield from ("", "## Driver calls", "")
    yield from _runtime(tiers.runtime)
    yield from ("", "## Hardware")
    yield from _hardware(tiers.hardware, [item.process for item in tiers.application])


def cell(text: str) -> str:
    """Return text escaped for a cell of a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _activities(item: ProcessActivities) -> Iterator[str]:
    if not isinstance(item.wall_ns, Missing):
        place = f"{item.process.host}, {item.process.label}"
        yield from ("", f"{place}: {_ms(item.wall_ns)} ms in all.")
    yield ""
    yield from _head("activity", "count", "total ms", "exclusive ms", "share %", texts=1)
    yield from (_activity(use) for use in item.activities[:_SHOWN])
    if not isinstance(item.elsewhere_ns, Missing):
        yield _row("elsewhere", "", "", _ms(item.elsewhere_ns), "")


def _activity(use: ActivityUse) -> str:
    steps = " (steps)" if use.is_step else ""
    share = _UNKNOWN if isinstance(use.share_ratio, Missing) else f"{use.share_ratio * 100:.1f}"
    exclusive = _UNKNOWN if isinstance(use.exclusive_ns, Missing) else _ms(use.exclusive_ns)
    about = "~" if use.is_estimate else ""
    name = f"{use.kind}{steps} {use.name}"
    return _row(name, str(use.count), _ms(use.total_ns), about + exclusive, share)


def _runtime(item: Runtime | Missing) -> Iterator[str]:
    if isinstance(item, Missing):
        yield f"Unknown: {item.reason}."
        return
    yield from _head("call", "kind", "a step", "total ms", "mean ms", "max ms", texts=2)
    for call in item.calls[:_SHOWN]:
        times = (_ms(call.total_ns), _ms(call.mean_ns), _ms(call.max_ns))
        yield _row(call.name, call.kind.name.lower(), f"{call.count_per_step:.1f}", *times)
    launches = item.launches
    if isinstance(launches, KernelLaunches) and not isinstance(launches.p50_delay_ns, Missing):
        yield from ("", _launches(launches))


def _launches(item: KernelLaunches) -> str:
    text = f"{item.per_step:.1f} launches a step; of {item.matched} the kernels are known"
    if isinstance(item.p50_delay_ns, Missing) or isinstance(item.p95_delay_ns, Missing):
        return f"{text}."
    text += f", which start {_ms(item.p50_delay_ns)} ms (p50) or {_ms(item.p95_delay_ns)} ms (p95)"
    return f"{text} after their call; {item.short} run for less time than it."


def _hardware(item: Hardware, processes: Sequence[Process]) -> Iterator[str]:
    for process, used in zip(processes, item.processes, strict=True):
        yield from ("", f"{process.host}, {process.label}:", "")
        if isinstance(used, Missing):
            yield f"Unknown: {used.reason}."
            continue
        yield from _curves(_process(used))
    yield ""
    if isinstance(item.devices, Missing):
        yield f"Accelerators: {item.devices.reason}."
        return
    for device in item.devices:
        yield from (f"{cell(device.name)} {device.index} of {device.host}:", "")
        yield from _curves(_device(device))
        yield ""


# Label, curve, and the unit of the table in units of the curve.
_Amount = tuple[str, SampleCurve | Missing, float]


def _process(item: ProcessHardware) -> Iterator[_Amount]:
    usable = item.usable_cpus
    of = "" if isinstance(usable, Missing) else f" of {usable:g}"
    yield f"CPUs busy{of}", item.cores_busy, 1
    yield "threads", item.threads, 1
    yield "voluntary switches a second", item.voluntary_switches_per_s, 1
    yield "involuntary switches a second", item.involuntary_switches_per_s, 1
    yield "first thread ready without a CPU %", item.run_delay_ratio, 0.01
    yield "garbage collection %", item.gc_ratio, 0.01
    yield "page faults from storage a second", item.major_faults_per_s, 1
    yield "resident MiB", item.resident_bytes, _BYTES_PER_MIB
    yield "read MiB a second", item.read_bytes_per_s, _BYTES_PER_MIB
    yield "written MiB a second", item.written_bytes_per_s, _BYTES_PER_MIB


def _device(item: DeviceHardware) -> Iterator[_Amount]:
    yield "busy %", item.utilization_ratio, 0.01
    yield "memory MiB", item.memory_used_bytes, _BYTES_PER_MIB
    yield "power W", item.power_watts, 1
    yield "SM clock MHz", item.sm_clock_hz, _HZ_PER_MHZ
    yield "PCIe to the host MiB a second", item.pcie_sent_bytes_per_s, _BYTES_PER_MIB
    yield "PCIe from the host MiB a second", item.pcie_received_bytes_per_s, _BYTES_PER_MIB


def _curves(amounts: Iterator[_Amount]) -> Iterator[str]:
    yield from _head("", "mean", "p95", "max", texts=1)
    for name, curve, unit in amounts:
        if isinstance(curve, Missing):
            yield _row(f"{name} ({curve.reason})", _UNKNOWN, _UNKNOWN, _UNKNOWN)
            continue
        yield _row(name, *(f"{each / unit:.2f}" for each in (curve.mean, curve.p95, curve.max)))


def _head(*headings: str, texts: int) -> Iterator[str]:
    yield _row(*headings)
    yield f"|{'|'.join(['---'] * texts + ['---:'] * (len(headings) - texts))}|"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell(each) for each in cells)} |"


def _ms(duration_ns: float) -> str:
    return f"{duration_ns / _NS_PER_MS:.3f}"
