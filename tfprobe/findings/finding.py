"""A finding of a rule: evidence that one can open, what to do, and a bound of the gain."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tfprobe.analysis.compare.trials import Interval, Verdict
from tfprobe.errors import Missing


class Severity(IntEnum):
    """How much a finding matters: by its likely gain, or because something will fail."""

    INFO = 0
    WARNING = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Gain:
    """Time that following the advice saves, in ns.

    `high_ns` is Amdahl's bound: what is saved if the part goes away entirely and nothing else
    changes. `low_ns` is what is likely, by the formula of the rule (docs/advice.md). `of_ns` is the
    time of the thread's loops, without recording and without what only first steps take.
    """

    low_ns: int
    high_ns: int
    of_ns: int

    @property
    def low_ratio(self) -> float:
        return self.low_ns / self.of_ns if self.of_ns else 0.0

    @property
    def high_ratio(self) -> float:
        return self.high_ns / self.of_ns if self.of_ns else 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a person can check: a text, at most one amount, and where to look.

    `capture` is a file below the run directory, `source` is "file:line", `iterator` the path of a
    node of tf.data, `command` a command that shows it. `steps` are those that the text is about,
    `op_type` and `scope` are those that it names.
    """

    text: str
    time_ns: int | None = None
    size_bytes: int | None = None
    ratio: float | None = None
    step: int | None = None
    capture: str = ""
    node: str = ""
    source: str = ""
    iterator: str = ""
    command: str = ""
    steps: tuple[int, ...] = ()
    op_type: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a finding is about: a loop, a process (without kind and name), or the run (no pid).

    `program` is the title of the Process, "" if the run has only one program.
    """

    host: str = ""
    pid: int | None = None
    rank: int | None = None
    kind: str = ""
    name: str = ""
    program: str = ""


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """What a trial of the same command found of a fix (`tfprobe try`): ratios of a step's time.

    `cpu` is that of its CPU time, where this tells what the time of a step does not.
    """

    fix: str
    verdict: Verdict
    ratio: float
    low_ratio: float
    high_ratio: float
    cpu: Interval | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece of advice.

    `part` names the time that the gain is taken from: gains of the same part overlap. `words_of` is
    the framework that the action speaks of, if the rule chose it; "" if it is still to be put into
    the words of the job's. `rule`, `subject` and `fixes` are filled in by the engine: `fixes` are
    the ids of those that `tfprobe try` can apply. `measured` is what they won in the newest trial,
    if there was one.
    """

    title: str
    severity: Severity
    evidence: tuple[Evidence, ...]
    action: str
    gain: Gain | Missing
    part: str = ""
    words_of: str = ""
    rule: str = ""
    subject: Subject = Subject()
    fixes: tuple[str, ...] = ()
    measured: tuple[MeasuredGain, ...] = ()
