"""What is left of one case, and the rows that compare what tfprobe says of it with what is true."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answers import Document, Recorded
from cases import Case

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

    @property
    def repeats(self) -> int:
        """How often the loop was run in each way."""
        return len(list(self.folder.glob("recorded-*.ending.json")))

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
        """The same as recorded: from the end of one wait to that of the next.

        Nothing may tell when the last steps were over, so stretches without times are left out.
        """
        if not self.plain_stretches:
            return self.recorded.cycle_ns(self.main)
        cycles: list[float] = []
        for first, steps, _ in self.plain_stretches:
            begin = (first + int(self.truth["warm_up"])) * self.calls
            end = begin + steps * self.calls - 1
            taken_ns = self.recorded.stretch_ns(self.main, begin, end)
            if not isinstance(taken_ns, Missing):
                cycles.append(taken_ns / (steps * self.calls))
        return statistics.median(cycles) if cycles else Missing("no stretch has times")

    @property
    def calls(self) -> int:
        """How many calls of the recorded function make a step of the program."""
        return int(self.truth.get("calls_a_step", 1))

    @property
    def plain_stretches(self) -> list[tuple[int, int, int]]:
        """First step, steps and ns between two waits of the program."""
        return [tuple(stretch) for stretch in self._plain("stretches")]

    @property
    def device_ns(self) -> float | Missing:
        """The usual time of the device for a step, by the marks of the program between its waits.

        A mark is passed once all before it is done, so a device that waits for Python counts, too.
        """
        if not self.is_gpu:
            return Missing(NEEDS_GPU)
        times = [
            device_ns / steps
            for (_, steps, _), device_ns in zip(
                self.plain_stretches, self._plain("device_ns"), strict=True
            )
        ]
        return statistics.median(times) if times else Missing("each stretch has a traced step")

    def _plain(self, name: str) -> list[Any]:  # Any: what the program notes of a stretch
        """Return what is noted of each stretch that is as without a recording.

        None has a traced step, which runs alone, nor one before it, which ends with its trace. If
        steps end where their calls return, its first step takes the wait of the stretch before.
        """
        warm_up = int(self.truth["warm_up"])
        traced = [
            int(event["step"]) // self.calls - warm_up for event in self.recorded.events("sample")
        ]
        ends_at_calls = self.truth.get("steps_end") == "calls"
        return [
            noted
            for noted, (first, steps, _) in zip(
                self.truth[name], self.truth["stretches"], strict=True
            )
            if not any(
                first - (steps if ends_at_calls else 1) <= step < first + steps for step in traced
            )
        ]

    @property
    def traced_device_ns(self) -> float | Missing:
        """The usual time of the device for a traced step, by marks inside the step itself.

        A device that rested before is faster than one that is always busy.
        """
        noted = self.truth.get("step_device_ns")
        steps = [int(event["step"]) for event in self.recorded.events("sample")]
        if not noted or not steps:
            return Missing(NEEDS_GPU if not self.is_gpu else "no step was marked and traced")
        return statistics.median(noted[step] for step in steps)

    @property
    def main(self) -> str:
        """The name of the function that runs the steps, the first one counted."""
        return str(next(iter(self.truth["counts"])))

    def near(self, what: str, reported: Value, true: Value, ratio: float) -> Row:
        """Compare numbers that may differ by a share of the true one."""
        return self.judged(
            what, reported, true, f"within {ratio:.0%}" if ratio else "exact", _is_near(ratio)
        )

    def points(self, what: str, reported: Value, true: Value, points: float = 3) -> Row:
        """Compare shares that may differ by so many points."""
        return self.judged(
            what,
            reported,
            true,
            f"within {points:g} points",
            lambda said, known: abs(float(said) - float(known)) <= points / 100,
        )

    def least(self, what: str, reported: Value, least: float) -> Row:
        """Compare a number with the least that it may be."""
        return self.judged(what, reported, least, "at least", lambda said, known: said >= known)

    def most(self, what: str, reported: Value, most: float) -> Row:
        """Compare a number with the most that it may be."""
        return self.judged(what, reported, most, "at most", lambda said, known: said <= known)

    def same(self, what: str, reported: Value, true: Value) -> Row:
        """Compare what must be equal."""
        return self.judged(what, reported, true, "equal", lambda said, known: said == known)

    def measured(self, what: str, value: Value, beside: Value) -> Row:
        """Show two numbers without a target."""
        is_missing = isinstance(value, Missing) or isinstance(beside, Missing)
        return Row(self.case.name, what, value, beside, "", MISSING if is_missing else MEASURED)

    def no_gpu(self, what: str) -> Row:
        """Name a claim that this machine cannot test."""
        nothing = Missing(NEEDS_GPU)
        return Row(self.case.name, what, nothing, nothing, "", NOT_APPLICABLE)

    def judged(
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
