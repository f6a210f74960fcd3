"""Find ranks that others wait for, and time in collectives that computation does not hide."""

from __future__ import annotations

from collections.abc import Iterator

from tfprobe.analysis.distributed.slow_ranks import FEW, Straggler
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import LoopAnalysis, RunAnalysis, Verdict
from tfprobe.findings.thresholds import Thresholds

# A slow machine can be made as fast as the others or left out.
LIKELY = 0.5
# Of many slow ranks, the first will do.
_MOST_NAMED = 3
_MEASURES = {
    "between": "longer before a step than the median rank",
    "inside": "longer in a traced step outside collectives than the median rank",
    "step": "longer in a step than the median rank",
}
_Group = tuple[str, str, int]


def straggler(run: RunAnalysis, limits: Thresholds) -> Iterator[Verdict]:
    """Return a finding for each loop with a rank that is slow and that other ranks wait for.

    Which ranks are slow is decided by analysis.distributed.slow_ranks, as everywhere. The bound is
    what the slowest takes longer than the median rank, in all steps.
    """
    groups: dict[_Group, list[LoopAnalysis]] = {}
    for loop in run.loops:
        key = loop.subject.kind, loop.subject.name, loop.process.group
        groups.setdefault(key, []).append(loop)
    for group in groups.values():
        if all(loop.subject.rank is not None for loop in group):
            slow = [loop for loop in group if loop.slow is not None and loop.slow.is_waited_for]
            yield _finding(slow, len({loop.key[0] for loop in group}), limits)


def _finding(loops: list[LoopAnalysis], ranks: int, limits: Thresholds) -> Verdict:
    """Return the finding for the slowest of these loops, each of which is slow."""
    # If several threads of a process run the loop, the busiest counts.
    by_excess = sorted(loops, key=lambda loop: (-_excess_ns(loop), -loop.timing.loop_ns))
    if not by_excess or by_excess[0].slow is None:
        return None
    loop, slow = by_excess[0], by_excess[0].slow
    if slow.excess_ns < limits.straggler_ratio * _cycle_ns(loop):
        return None
    last = slow.last_ratio
    if not isinstance(last, Missing) and ranks < FEW and last < limits.last_ratio:
        return None
    gain_ns = slow.excess_ns * loop.timing.steps
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title=f"Rank {loop.subject.rank} is slower than the others, and they wait for it",
        severity=limits.severity(gain),
        evidence=(
            *_came_last(slow),
            Evidence(_MEASURES[slow.measure], time_ns=round(slow.excess_ns)),
            Evidence(f"robust z {slow.late.z:.1f} over {slow.late.steps} steps of {ranks} ranks"),
            *_other_slow_ranks(loop, by_excess),
            Evidence("compare all ranks", command="tfprobe ranks"),
            loop.shown_by("steps" if isinstance(last, Missing) else "transfers"),
        ),
        action="Compare its machine with the others' (other jobs, clocks, disks, links) and its "
        "share of the data; `tfprobe report --rank` shows one rank.",
        gain=gain,
        part="straggler",
        subject=loop.subject,
    )


def _excess_ns(loop: LoopAnalysis) -> float:
    return 0.0 if loop.slow is None else loop.slow.excess_ns


def _cycle_ns(loop: LoopAnalysis) -> float:
    """Return the mean time from step to step without the first one, which is never recorded, and
    is long for reasons of its own.
    """
    return (loop.timing.regular_step_ns + loop.timing.regular_gap_ns) / max(loop.timing.steps, 1)


def _came_last(slow: Straggler) -> Iterator[Evidence]:
    if not isinstance(slow.last_ratio, Missing):
        yield Evidence(f"of {slow.matched} collectives it was last in", ratio=slow.last_ratio)


def _other_slow_ranks(loop: LoopAnalysis, loops: list[LoopAnalysis]) -> Iterator[Evidence]:
    ranks = dict.fromkeys(str(each.subject.rank) for each in loops if each.key[0] != loop.key[0])
    if ranks:
        shown = ", ".join(list(ranks)[:_MOST_NAMED])
        rest = len(ranks) - _MOST_NAMED
        yield Evidence(f"also slow: rank {shown}" + (f" and {rest} more" if rest > 0 else ""))


def collectives_exposed(loop: LoopAnalysis, limits: Thresholds) -> Verdict:
    """Return a finding if collectives run without computation; the bound is all of that time."""
    parts = loop.parts
    if isinstance(parts, Missing):
        return parts
    ratio = parts.ratio("collectives")
    if ratio < limits.collectives_ratio:
        return None
    gain_ns = parts.of_all_steps("collectives")
    # The backward pass can hide about half; the last gradients have nothing to hide behind.
    gain = loop.gain(gain_ns, LIKELY * gain_ns)
    return Finding(
        title="Collectives are not overlapped with computation",
        severity=limits.severity(gain),
        evidence=(
            Evidence("share of the cycle with only collectives running", ratio=ratio),
            *loop.traced_step(),
            loop.shown_by("transfers"),
        ),
        action="First check whether one rank is late (straggler). Then pack gradients "
        "(CommunicationOptions(bytes_per_pack=...)), reduce in 16 bits, use NCCL rather than RING "
        "on GPUs, or take larger batches so that there is more to hide behind.",
        gain=gain,
        part="collectives",
    )
