"""Make up runs as one look shows them, and a source that gives them: for tests of the live page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.rundir import UNIX_NS
from tfprobe.analysis.jobs.fleet import LoopRow, ProcessRow, RunRow
from tfprobe.analysis.ops.op_stats import OpStats, OpTable
from tfprobe.errors import Missing, TfprobeError
from tfprobe.findings.finding import Finding, Gain, Severity
from tfprobe.live.top.source import Key, Noted, TopSnapshot, Watch
from tfprobe.profile.snapshots import LoopShares

MS = 1_000_000
S = 1_000_000_000
NOT_MEASURED = Missing("nothing was measured")


def loop_row(**changes: Any) -> LoopRow:
    """Return a kind of step that runs 28.3 times a second."""
    facts: dict[str, Any] = {
        "index": 0,
        "kind": "fit",
        "name": "digits_cnn",
        "thread": "MainThread",
        "count": 300,
        "raised": 0,
        "sampled": 7,
        "steps_per_s": 28.3,
        "p50_ns": 35 * MS,
        "p95_ns": 51 * MS,
        "trend_ns": (34 * MS, 35 * MS, 36 * MS, 70 * MS, 35 * MS),
    }
    return LoopRow(**{**facts, **changes})


def shares(**changes: Any) -> LoopShares:
    """Return shares of 7 captures: a fifth of the cycle before the accelerator."""
    facts: dict[str, Any] = {
        "before_ratio": 0.2,
        "on_ratio": 0.7,
        "after_ratio": 0.05,
        "other_ratio": 0.05,
        "captures": 7,
        "newest_unix_ns": UNIX_NS,
    }
    return LoopShares(**{**facts, **changes})


def process_row(**changes: Any) -> ProcessRow:
    """Return a process that runs, without an accelerator."""
    facts: dict[str, Any] = {
        "folder": f"{changes.get('pid', 4711)}-1",
        "host": "node7",
        "pid": 4711,
        "rank": None,
        "role": None,
        "state": "running",
        "started_unix_ns": UNIX_NS,
        "steps": 300,
        "steps_per_s": 28.3,
        "p50_ns": 35 * MS,
        "p95_ns": 51 * MS,
        "trend_ns": (34 * MS, 35 * MS, 36 * MS, 70 * MS, 35 * MS),
        "since_last_step_ns": 20 * MS,
        "overhead_ratio": 0.009,
        "cpus_used": 1.45,
        "resident_bytes": 655 * 2**20,
        "gpu_ratio": NOT_MEASURED,
        "gpu_memory_bytes": NOT_MEASURED,
        "captures": 7,
        "samples_left": 0,
        "shares": shares(),
        "goodput_ratio": 0.52,
        "wall_time": NOT_MEASURED,
        "loops": (loop_row(),),
    }
    return ProcessRow(**{**facts, **changes})


def run_row(name: str = "r1", *processes: ProcessRow, **changes: Any) -> RunRow:
    """Return a run that runs, of these processes or of one."""
    facts: dict[str, Any] = {
        "id": name,
        "directory": f"/runs/{name}",
        "command": ("python", "train.py", "--name", name),
        "state": "running",
        "started": "2026-11-20T20:04:18+00:00",
        "host": "node7",
        "user": "ada",
        "started_unix_ns": UNIX_NS,
        "processes": processes or (process_row(),),
        "problems": (),
    }
    return RunRow(**{**facts, **changes})


def seen(*runs: RunRow, after_s: float = 60) -> TopSnapshot:
    """Return a look at these runs, some time after they started."""
    return TopSnapshot("/runs", UNIX_NS + round(after_s * S), runs)


def op_table() -> OpTable:
    """Return one op."""
    return OpTable((OpStats("MatMul", 14, 0, 66 * MS, 0, 2**20),), 7, True)


def finding(title: str = "Input limits the speed") -> Finding:
    """Return something that could be faster."""
    gain = Gain(100 * MS, 200 * MS, 1000 * MS)
    return Finding(title, Severity.WARNING, (), "Read ahead.", gain)


@dataclass
class MadeUp:
    """A source of looks that a test changes; it notes what it was asked."""

    now: TopSnapshot | TfprobeError = field(default_factory=lambda: seen(run_row()))
    table: OpTable | Missing | TfprobeError = field(default_factory=op_table)
    found: Sequence[Finding] | TfprobeError = field(default_factory=lambda: (finding(),))
    noted: Sequence[Noted] | TfprobeError = (Noted(UNIX_NS, "sample", "step 10 of fit"),)
    answers: Sequence[str] | TfprobeError = ("pid 4711 will record 5 steps.",)
    text: str | TfprobeError = "\x1b[1mpython train.py\x1b[0m\n  running\n"
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def look(self) -> TopSnapshot:
        """Give the look as it is now."""
        return _given(self.now)

    def ops(self, key: Key, watch: Watch) -> OpTable | Missing:
        """Give the table, after telling how far reading is."""
        self.asked.append(("ops", key))
        watch(1, 2)
        return _given(self.table)

    def findings(self, key: Key, watch: Watch) -> Sequence[Finding]:
        """Give the findings."""
        self.asked.append(("findings", key))
        watch(1, 2)
        return _given(self.found)

    def notes(self, key: Key, watch: Watch) -> Sequence[Noted]:
        """Give the notes."""
        self.asked.append(("notes", key))
        return _given(self.noted)

    def sample(self, key: Key, steps: int) -> Sequence[str]:
        """Give the answers."""
        self.asked.append(("sample", key, steps))
        return _given(self.answers)

    def report(self, directory: str, width: int, watch: Watch) -> str:
        """Give the text."""
        self.asked.append(("report", directory, width))
        watch(1, 2)
        return _given(self.text)


def _given(value: Any) -> Any:
    if isinstance(value, TfprobeError):
        raise value
    return value
