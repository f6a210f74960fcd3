"""Judge recorded twins and lay the verdicts out as one Markdown table with its totals."""

from __future__ import annotations

from dataclasses import dataclass

from tests.planted.cases import Case, planted_place
from tests.planted.recording import Told, Twin

# Two runs of one program differ by that much, so that a bound is not told to break by less.
SCATTER = 0.02

_HEAD = (
    "program",
    "TensorFlow",
    "planted cause",
    "its share of wall time",
    "first finding",
    "right cause",
    "right line",
    "gain: at most",
    "gain: measured",
    "bound holds",
    "mended twin is warned of",
)


@dataclass(frozen=True)
class Row:
    """One case with both twins, or why it has none."""

    case: Case
    planted: Twin | None = None
    mended: Twin | None = None
    trouble: str = ""

    @property
    def first(self) -> Told | None:
        """The first finding of the planted twin."""
        findings = self.planted.findings if self.planted else ()
        return findings[0] if findings else None

    @property
    def is_right(self) -> bool:
        """Whether the first finding names the cause, at warning or above."""
        first = self.first
        return first is not None and first.is_warning and first.rule in self.case.rules

    @property
    def is_right_line(self) -> bool | None:
        """Whether the first finding leads to the marked line; None where no line is expected."""
        if not self.case.line:
            return None
        return (
            self.is_right
            and self.first is not None
            and planted_place(self.case.path).holds(self.first.source)
        )

    @property
    def gain(self) -> float | None:
        """The part of the time that mending won."""
        if self.planted is None or self.mended is None:
            return None
        before, after = self.planted.measured, self.mended.measured
        if self.case.wall:
            return 1 - after.wall_s / before.wall_s
        return 1 - after.unit_s / before.unit_s

    @property
    def high(self) -> float | None:
        """The bound of the first finding, as a part of the time that `gain` is a part of.

        Loops are a little shorter than what their stopwatch took: first steps are no part of them.
        """
        if self.planted is None or self.first is None or self.first.high_s is None:
            return None
        measured = self.planted.measured
        whole_s = measured.wall_s if self.case.wall else measured.steps_s
        return min(self.first.high_s / min(self.first.of_s or whole_s, whole_s), 1.0)

    @property
    def bound_holds(self) -> bool | None:
        """Whether "at most" of the right finding is the gain or more, and no more than twice it."""
        if not self.is_right or self.high is None or self.gain is None:
            return None
        return self.gain - SCATTER <= self.high <= 2 * self.gain + SCATTER

    @property
    def accused(self) -> Told | None:
        """The first finding of the mended twin that is a warning and not rightly told."""
        findings = self.mended.findings if self.mended else ()
        rightly = self.case.rightly_told
        return next(
            (told for told in findings if told.is_warning and told.rule not in rightly), None
        )


def table(rows: list[Row]) -> str:
    """Return the Markdown table of the rows, and below it the totals."""
    lines = [_line(_HEAD), _line(["---"] * len(_HEAD))]
    lines += [_line(_cells(row)) for row in rows]
    return "\n".join([*lines, "", *_totals(rows)])


def _cells(row: Row) -> list[str]:
    case = row.case
    head = [case.program, case.cell.split("-")[0].removeprefix("tf"), case.cause]
    if row.planted is None or row.mended is None:
        return [*head, f"not run: {row.trouble}", *["-"] * (len(_HEAD) - len(head) - 1)]
    first, measured = row.first, row.planted.measured
    share = None if measured.cause_s is None else measured.cause_s / measured.wall_s
    accused = row.accused
    return [
        *head,
        _percent(share),
        f"{first.rule} ({first.severity})" if first else "none",
        _yes(row.is_right),
        _yes(row.is_right_line),
        _percent(row.high),
        _percent(row.gain),
        _yes(row.bound_holds),
        f"{accused.rule} ({accused.severity})" if accused else "nothing",
    ]


def _totals(rows: list[Row]) -> list[str]:
    ran = [row for row in rows if row.planted is not None and row.mended is not None]
    lined = [row for row in ran if row.is_right_line is not None]
    bounds = [row for row in ran if row.bound_holds is not None]
    counts = [
        ("first finding is the planted cause", sum(row.is_right for row in ran), len(ran), "95 %"),
        (
            "... and leads to its line, where it has one",
            sum(bool(row.is_right_line) for row in lined),
            len(lined),
            "95 %",
        ),
        (
            "mended twins with a warning",
            sum(row.accused is not None for row in ran),
            len(ran),
            "at most 2 %",
        ),
        (
            "bounds of right findings from the measured gain to twice it",
            sum(bool(row.bound_holds) for row in bounds),
            len(bounds),
            "95 %",
        ),
    ]
    lines = [_line(("what", "reached", "of", "ratio", "target")), _line(["---"] * 5)]
    for what, reached, of, target in counts:
        lines.append(
            _line((what, str(reached), str(of), _percent(reached / of if of else None), target))
        )
    return lines


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.0f} %"


def _yes(verdict: bool | None) -> str:
    return "-" if verdict is None else "yes" if verdict else "no"
