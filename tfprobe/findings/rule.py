"""Say what a rule is: a name, and a function from signals to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding
from tfprobe.findings.signals import LoopSignals, ProcessSignals, Signals
from tfprobe.findings.thresholds import Thresholds

# A finding; why there can be none; or nothing to say.
Verdict = Finding | Missing | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; a function in `rules` has its name. `is_of_traces`: it needs traced steps."""

    name: str
    check: Callable[[Signals, Thresholds], Iterator[Verdict]]
    is_of_traces: bool = False


def of_loops(
    name: str, check: Callable[[LoopSignals, Thresholds], Verdict], *, is_of_traces: bool = True
) -> Rule:
    """Return a rule that looks at each work by itself, mostly at what was traced of it."""

    def check_all(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
        for loop in signals.loops:
            found = check(loop, limits)
            yield replace(found, subject=loop.subject) if isinstance(found, Finding) else found

    return Rule(name, check_all, is_of_traces)


def of_processes(name: str, check: Callable[[ProcessSignals, Thresholds], Verdict]) -> Rule:
    """Return a rule that looks at each process by itself."""

    def check_all(signals: Signals, limits: Thresholds) -> Iterator[Verdict]:
        for process in signals.processes:
            found = check(process, limits)
            yield replace(found, subject=process.subject) if isinstance(found, Finding) else found

    return Rule(name, check_all)


def lacking(*signals: object) -> Missing:
    """Return the first of these signals that is missing."""
    return next(signal for signal in signals if isinstance(signal, Missing))
