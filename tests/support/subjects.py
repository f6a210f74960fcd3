"""Make results of the analysis in memory, for tests of rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tfprobe.analysis.account.account import Account
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.ledger import AccountPart, Item
from tfprobe.analysis.breakdown.gap_breakdown import GapCause
from tfprobe.analysis.breakdown.python_lines import LineKind, PythonLine
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.analysis.memory.host_memory import Growth, GrowthVerdict
from tfprobe.analysis.ops.op_stats import OpStats
from tfprobe.analysis.ops.step_ops import BusyOp, StepOps
from tfprobe.analysis.steps.cycle_shares import CycleShares
from tfprobe.analysis.steps.loop_timing import LoopTiming
from tfprobe.analysis.system.machine_use import MachineUse
from tfprobe.errors import Missing
from tfprobe.findings.engine import judge
from tfprobe.findings.finding import Finding, Gain, Subject
from tfprobe.findings.rule import LoopAnalysis, ProcessAnalysis, RunAnalysis, TracedStep
from tfprobe.findings.rules import RULES
from tfprobe.findings.thresholds import DEFAULTS, Thresholds

MS = 1_000_000
MIB = 2**20
GIB = 2**30
# A loop, unless a test says otherwise: 100 steps of 8 ms, 2 ms apart.
STEPS = 100
WHOLE_NS = STEPS * 10 * MS


def found(
    rule: str,
    *loops: LoopAnalysis,
    processes: Sequence[ProcessAnalysis] | None = None,
    limits: Thresholds = DEFAULTS,
) -> Finding | None:
    """Return the finding of one rule for these loops or processes, with its own bound.

    All else is from `judge`, which raises some bounds, and what is likely by measured rows.
    """
    chosen = tuple(each.process for each in loops) if processes is None else tuple(processes)
    run = RunAnalysis(chosen, loops)
    finding = next((each for each in judge(run, limits).findings if each.rule == rule), None)
    if finding is None:
        return None
    checked = next(each for each in RULES if each.name == rule).check(run, limits)
    own = [each.gain for each in checked if isinstance(each, Finding) and _is_of(each, finding)]
    return replace(finding, gain=own[0]) if own else finding


def _is_of(own: Finding, finding: Finding) -> bool:
    """Return whether a finding of a rule became this one, whose gain was raised at most."""
    if not (isinstance(own.gain, Gain) and isinstance(finding.gain, Gain)):
        return False
    is_raised = own.gain.low_ns <= finding.gain.low_ns and own.gain.high_ns <= finding.gain.high_ns
    return own.gain.of_ns == finding.gain.of_ns and own.title == finding.title and is_raised


def process(**changes: Any) -> ProcessAnalysis:
    """Return a process that is well."""
    facts: dict[str, Any] = {
        "subject": Subject(host="node7", pid=4711),
        "overhead_ns": 0,
        "wall_ns": 2 * WHOLE_NS,
        "settings": {"intra_op_threads": 0, "inter_op_threads": 0, "cpus": 4, "jit": True},
        "activities": (),
        "machine": machine(),
        "loop_ns": WHOLE_NS,
    }
    return ProcessAnalysis(**{**facts, **changes})


def account(wall_ns: int, **parts: Sequence[Item]) -> Account:
    """Return what the wall time of a process went to; what is not named is productive."""
    given = {Category(name): tuple(items) for name, items in parts.items()}
    rest_ns = wall_ns - sum(item.ns for items in given.values() for item in items)
    given.setdefault(Category.PRODUCTIVE, (Item("host compute", "", rest_ns),))
    finding = (
        AccountPart(each, sum(item.ns for item in given.get(each, ())), given.get(each, ()))
        for each in Category
    )
    prepared_ns = sum(item.ns for item in given.get(Category.PREPARATION, ()))
    return Account(wall_ns, 1, tuple(finding), STEPS, ("fit", "model"), None, prepared_ns)


def machine(**changes: Any) -> MachineUse:
    """Return a machine with room."""
    facts: dict[str, Any] = {
        "cpus": 4.0,
        "throttled_ns": 0,
        "resident_bytes": GIB,
        "peak_bytes": GIB,
        "limit_bytes": 16 * GIB,
        "growth": growth(0.0, GrowthVerdict.STEADY),
        "steps": STEPS,
    }
    return MachineUse(**{**facts, **changes})


def growth(bytes_per_step: float, verdict: GrowthVerdict = GrowthVerdict.GROWING) -> Growth:
    """Return how memory grew over the later half of the steps."""
    return Growth(verdict, bytes_per_step, 0.0, 0.0, STEPS // 2, STEPS // 2, STEPS)


def timing(**changes: Any) -> LoopTiming:
    """Return a regular loop."""
    facts: dict[str, Any] = {
        "kind": "fit",
        "name": "model",
        "steps": STEPS,
        "per_execution": 1,
        "retraces": 0,
        "step_ns": STEPS * 8 * MS,
        "gap_ns": STEPS * 2 * MS,
        "regular_step_ns": STEPS * 8 * MS,
        "regular_gap_ns": STEPS * 2 * MS,
        "usual_step_ns": 8.0 * MS,
        "usual_gap_ns": 2.0 * MS,
        "mean_cycle_ns": 10.0 * MS,
        "retrace_ns": 0,
        "untraced": STEPS - 1,
        "slowest_steps": (7, 3),
        "thread_ns": WHOLE_NS,
    }
    return LoopTiming(**{**facts, **changes})


def parts(**shares: float) -> CycleShares:
    """Return the parts of a cycle; what is left is host_compute."""
    rest = 1 - sum(shares.values())
    return CycleShares(
        {"host_compute": rest, **shares}, cycle_ns=10.0 * MS, total_ns=float(WHOLE_NS)
    )


def cause(part: str, what: str, source: str, ms: float) -> GapCause:
    """Return what a part of the mean cycle went to, by the value of the part and "file:line"."""
    file, _, line = source.rpartition(":")
    return GapCause(Part(part), what, file, int(line or 0), round(ms * MS))


def line(what: str, source: str, kind: str, ratio: float, calls: int) -> PythonLine:
    """Return a line of the job between steps, by the value of its kind and "file:line"."""
    file, _, number = source.rpartition(":")
    return PythonLine(what, file, int(number), LineKind(kind), ratio, calls)


def use(op_type: str, busy_ms: float) -> BusyOp:
    """Return a type of op that ran once a step."""
    stats = OpStats(op_type, 1, 0, round(busy_ms * MS), 0, 0)
    return BusyOp(stats, busy_ms * MS, f"layer/{op_type}")


def ops(**changes: Any) -> StepOps:
    """Return the ops of a step of 8 ms with a few large ones."""
    facts: dict[str, Any] = {
        "step_ns": 8.0 * MS,
        "span_ns": 8.0 * MS,
        "busy_ns": 8.0 * MS,
        "large_ns": 8.0 * MS,
        "per_step": 20.0,
        "undisturbed_ns": 8.0 * MS,
        "usual_op_ns": 0.4 * MS,
        "host": (use("MatMul", 1.0),),
        "device": (),
        "fusible_ns": 0.0,
    }
    return StepOps(**{**facts, **changes})


def gpu_ops(**changes: Any) -> StepOps:
    """Return the ops of a step whose kernels run on a GPU."""
    return ops(**{"device": (use("MatMul", 1.0),), **changes})


def loop(**changes: Any) -> LoopAnalysis:
    """Return a loop that is well."""
    facts: dict[str, Any] = {
        "subject": Subject("node7", 4711, None, "fit", "model"),
        "process": process(),
        "timing": timing(),
        "traced_steps": tuple(
            TracedStep(step, f"node7/4711-1/captures/{step:06}-fit-0.xplane.pb")
            for step in (20, 23)
        ),
        "outliers": Missing("none"),
        "parts": parts(),
        "ops": ops(),
        "scopes": (),
        "lines": (),
        "reads": Missing("none"),
        "copies": (),
        "input": Missing("none"),
    }
    return LoopAnalysis(**{**facts, **changes})
