"""Render a trial: what each fix wins, whether results stayed the same, and what to change."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from tfprobe.analysis.compare.delays import Criticality, DelayLevel, DelaySlope
from tfprobe.analysis.compare.trials import (
    Interval,
    ResultsComparison,
    SameResults,
    TrialGain,
    Verdict,
)
from tfprobe.errors import Missing
from tfprobe.findings.fixes import ChosenFix, ResultsClass
from tfprobe.findings.trials import (
    SIDE_BY_SIDE,
    BaseOutcome,
    DelayOutcome,
    FixOutcome,
    Trial,
)
from tfprobe.report.format import numbers, page
from tfprobe.report.format.gains import cpu_text
from tfprobe.report.format.page import TextColumn

_COLUMNS = (
    TextColumn("fix", is_number=False, may_be_cut=True),
    TextColumn("verdict", is_number=False),
    TextColumn("gain", is_number=False),
    TextColumn("predicted", may_go=True),
    TextColumn("CPU gain", may_go=True),
    TextColumn("results", is_number=False),
)
_DELAY_COLUMNS = (
    TextColumn("part", is_number=False),
    TextColumn("verdict", is_number=False),
    TextColumn("slope", is_number=False),
    TextColumn("of a step"),
    TextColumn("gain at most", is_number=False),
    TextColumn("results", is_number=False, may_go=True),
)
_LISTED = (
    TextColumn("fix", is_number=False),
    TextColumn("results", is_number=False),
    TextColumn("what it does", is_number=False, may_be_cut=True),
)
_UNKNOWN = "-"
_MOST_FILES = 3


def render_trial(trial: Trial, *, width: int, colour: bool) -> str:
    """Return the page of `tfprobe try`."""
    return page.render(_parts(trial, width), width=width, colour=colour)


def _parts(trial: Trial, width: int) -> Iterator[RenderableType]:
    yield page.heading(f"Trial of {shlex.join(trial.command)}")
    yield page.paragraph(base_sentence(trial))
    outcomes = trial.outcomes
    if outcomes:
        yield page.blank()
        yield page.table(_COLUMNS, [_row(outcome) for outcome in outcomes], width=width)
    for outcome in outcomes:
        yield page.blank()
        yield page.paragraph(f"{outcome.name}: {outcome_sentence(outcome)}")
        for change, source in changes(outcome):
            place = f" (applied at {source})" if source else ""
            yield page.paragraph(f"→ {change}{place}")
        for note in (*notes(outcome), *start_notes(outcome, trial.base)):
            yield page.paragraph(note)
    if trial.delays:
        yield page.blank()
        yield page.table(_DELAY_COLUMNS, [_delay_row(one) for one in trial.delays], width=width)
    for delayed in trial.delays:
        yield page.blank()
        yield page.paragraph(f"{delayed.part}: {delay_sentence(delayed)}")
    for sentence in not_tried(trial):
        yield page.paragraph(sentence)
    yield page.blank()
    yield page.paragraph(" ".join(circumstances(trial)))


def _delay_row(outcome: DelayOutcome) -> Sequence[str]:
    slope = outcome.slope if isinstance(outcome.slope, DelaySlope) else None
    return (
        outcome.part,
        outcome.verdict.value,
        _UNKNOWN if slope is None else slope_text(slope.slope),
        _UNKNOWN if slope is None else numbers.percent(slope.share_ratio),
        _UNKNOWN if slope is None else interval_text(slope.most),
        delay_results_text(outcome) or _UNKNOWN,
    )


def slope_text(slope: Interval) -> str:
    """Write how much longer a step gets a unit of delay, with the interval."""
    return f"{slope.ratio:.2f} [{slope.low_ratio:.2f}, {slope.high_ratio:.2f}]"


def delay_sentence(outcome: DelayOutcome) -> str:
    """Say what a step does when the part takes longer, and what can be won there."""
    slope = outcome.slope
    if outcome.verdict is Criticality.NOT_APPLIED:
        why = "; ".join(outcome.skipped) or getattr(slope, "reason", "")
        return f"{outcome.summary}. Not applied: {why}."
    if isinstance(slope, Missing):
        return f"{outcome.summary}. Nothing can be told: {slope.reason}."
    text = f"{outcome.summary}. {_levels(slope.levels)}"
    most = numbers.percent(slope.most.high_ratio)
    if outcome.verdict is Criticality.UNKNOWN:
        text += f" It cannot be told what that means: {slope.why}."
    elif outcome.verdict is Criticality.SLACK:
        text += f" Something else takes the time: a faster part wins at most {most}."
    else:
        won_s = min(1.0, slope.slope.ratio)
        text += f" A second saved there is {won_s:.2f} s won: at most {most} of a step."
    compared = [one for one in (outcome.results, outcome.losses) if not isinstance(one, Missing)]
    if any(one.same is not SameResults.IDENTICAL for one in compared):
        text += " The results changed, so the order of the program depends on its speed."
    return text


def _levels(levels: Sequence[DelayLevel]) -> str:
    """Say how long a step is at each delay."""
    base = numbers.duration(levels[0].unit_ns)
    longer = ", and ".join(
        f"{numbers.duration(level.unit_ns)} if that takes {numbers.duration(level.delay_ns)} more"
        for level in levels[1:]
    )
    return f"A step takes {base}: {longer}."


def base_sentence(trial: Trial) -> str:
    """Say how fast the job is without a fix, and how far two runs of it differ."""
    base = trial.base
    unit = f"{base.kind} {base.name}".strip()
    without = "delay" if trial.delays else "fix"
    text = f"Without a {without}, one step of {unit} takes {numbers.duration(base.unit_ns)}"
    if base.warm_up_s is not None:
        text += f", after a warm-up of {numbers.duration(base.warm_up_s * 1e9)}"
    if base.error_ratio is None:
        return f"{text}."
    return (
        f"{text}. Runs without a {without} differ by up to {numbers.percent(base.error_ratio)}: "
        f"a {'delay' if trial.delays else 'gain'} must be larger to be told."
    )


def _row(outcome: FixOutcome) -> Sequence[str]:
    gain = outcome.gain if isinstance(outcome.gain, TrialGain) else None
    prediction = outcome.prediction
    return (
        outcome.name,
        outcome.verdict.value,
        gain_text(outcome) or _UNKNOWN,
        _UNKNOWN if prediction is None else numbers.signed_percent(prediction.likely_ratio),
        _UNKNOWN if gain is None else numbers.signed_percent(gain.cpu.ratio),
        results_text(outcome) or _UNKNOWN,
    )


def gain_text(outcome: FixOutcome) -> str:
    """Return the measured gain with its interval, "" where nothing was measured."""
    return "" if isinstance(outcome.gain, Missing) else interval_text(outcome.gain.wall)


def interval_text(gain: Interval) -> str:
    """Write a gain with its interval."""
    return numbers.gain(gain.ratio, gain.low_ratio, gain.high_ratio)


def results_text(outcome: FixOutcome) -> str:
    """Return whether results stayed the same, "" of a fix that was not applied."""
    return _results(outcome.results, is_not_applied=outcome.verdict is Verdict.NOT_APPLIED)


def delay_results_text(outcome: DelayOutcome) -> str:
    """Return whether results stayed the same, "" of a part that was not slowed down."""
    return _results(outcome.results, is_not_applied=outcome.verdict is Criticality.NOT_APPLIED)


def _results(results: ResultsComparison | Missing, *, is_not_applied: bool) -> str:
    if isinstance(results, Missing):
        return "" if is_not_applied else "cannot be compared"
    if results.same is SameResults.IDENTICAL:
        return "identical"
    return f"{results.same.value} ({results.distance_ratio:.0e})"


def changes(outcome: FixOutcome) -> tuple[tuple[str, str], ...]:
    """Return what to change to keep a fix that won, each with "file:line" or ""."""
    if outcome.verdict is not Verdict.WON:
        return ()
    return tuple((chosen.change, _source(outcome, chosen.fix.id)) for chosen in outcome.fixes)


def _source(outcome: FixOutcome, fix: str) -> str:
    applied = outcome.applied.get(fix)
    return "" if applied is None else applied.source


def notes(outcome: FixOutcome) -> Iterator[str]:
    """Yield what else to know of a fix that was applied: what it alters, and results."""
    if outcome.verdict is Verdict.NOT_APPLIED:
        return
    for chosen in outcome.fixes:
        if chosen.alters:
            yield f"It changes more: {chosen.alters}."
    results = outcome.results
    if isinstance(results, Missing):
        yield f"Results cannot be compared: {results.reason}."
    elif results.same is SameResults.DIFFERENT:
        yield "The weights differ by more than rounding: check the results."
    if isinstance(outcome.losses, ResultsComparison):
        same = _results(outcome.losses, is_not_applied=False)
        yield f"Losses at the same steps: {same}."


def start_notes(outcome: FixOutcome, base: BaseOutcome) -> Iterator[str]:
    """Yield how long the warm-up is with and without a fix of the start alone."""
    is_of_start = all(chosen.fix.is_of_start for chosen in outcome.fixes)
    if is_of_start and outcome.warm_up_s is not None and base.warm_up_s is not None:
        times = (numbers.duration(one * 1e9) for one in (outcome.warm_up_s, base.warm_up_s))
        yield "Its last process had a warm-up of {}; without the fix it takes {}.".format(*times)


def outcome_sentence(outcome: FixOutcome) -> str:
    """Say in a sentence or two what became of a fix."""
    summary = " and ".join(chosen.summary for chosen in outcome.fixes)
    gain = outcome.gain
    if outcome.verdict is Verdict.NOT_APPLIED:
        return f"{summary}. Not applied: {_why_not(outcome)}."
    if isinstance(gain, Missing):
        return f"{summary}. Nothing can be told: {gain.reason}."
    times = _times_applied(outcome)
    if outcome.verdict is Verdict.UNKNOWN:
        least = numbers.percent(gain.least_ratio)
        seen = (
            f"A gain below {least} would not have been seen."
            if gain.least_ratio < 1
            else "No gain would have been seen."
        )
        if gain.cpu_tells:
            seen += f" {cpu_text(gain.cpu)}; that alone does not show that steps are shorter."
        return f"{summary}.{times} It cannot be told: {gain.why}. {seen}"
    word = "shorter" if outcome.verdict is Verdict.WON else "longer"
    ratio = abs(gain.wall.ratio)
    text = f"{summary}.{times} A step is {numbers.percent(ratio)} {word}."
    if outcome.break_even_units:
        units = outcome.break_even_units
        steps = "1 step" if units == 1 else f"{numbers.count(units)} steps"
        text += f" The longer warm-up is made good after {steps}."
    return text


def _times_applied(outcome: FixOutcome) -> str:
    noted = [outcome.applied.get(chosen.fix.id) for chosen in outcome.fixes]
    counts = [
        "once" if one.applied == 1 else f"{numbers.count(one.applied)} times"
        for one in noted
        if one is not None and one.applied
    ]
    return f" Applied {', '.join(counts)}." if counts else ""


def _why_not(outcome: FixOutcome) -> str:
    if not outcome.processes and isinstance(outcome.gain, Missing):
        return outcome.gain.reason
    for chosen in outcome.fixes:
        noted = outcome.applied.get(chosen.fix.id)
        if noted is not None and noted.skipped:
            return "; ".join(noted.skipped)
    return "the job does nothing that it could change"


def not_tried(trial: Trial) -> tuple[str, ...]:
    """Say of each fix that was not tried why."""
    return tuple(f"{name} was not tried: {why}." for name, why in trial.not_tried)


def circumstances(trial: Trial) -> Iterator[str]:
    """Say how the arms ran and why so, and what became of files, a sentence each."""
    processes = (
        trial.base.processes
        + sum(outcome.processes for outcome in trial.fixes)
        + sum(outcome.processes for outcome in trial.delays)
    )
    many = "1 process" if processes == 1 else f"{processes} processes"
    yield f"{many} ran {trial.order} in {numbers.duration(trial.took_s * 1e9)}."
    if trial.pressure_ratio is not None:
        share = numbers.percent(trial.pressure_ratio)
        so = (
            "so what is compared ran at the same time"
            if trial.order == SIDE_BY_SIDE
            else "little enough to run it in turn"
        )
        yield f"Before the trial, tasks of this machine waited for a CPU {share} of the time, {so}."
    if trial.interrupted:
        yield "It was interrupted."
    yield (
        "The job saw its files through an overlay; nothing that it wrote there was kept."
        if trial.isolation == "overlay"
        else "The job ran in a copy of its directory; what it wrote elsewhere was kept."
    )
    if trial.not_overlaid:
        named = ", ".join(trial.not_overlaid)
        yield f"No overlay could be laid over {named}: what it wrote there was kept."
    if trial.written:
        named = ", ".join(trial.written[:_MOST_FILES])
        more = len(trial.written) - _MOST_FILES
        yield f"It wrote {named}" + (f" and {more} more." if more > 0 else ".")


def render_fixes(
    offered: Sequence[ChosenFix],
    why_not: Mapping[str, str],
    *,
    is_of_job: bool,
    width: int,
    colour: bool,
) -> str:
    """Return the page of `tfprobe try --list`, for a job that was recorded, or for any.

    `why_not` says of each fix that changes nothing in the job why, by its id.
    """
    parts = _list(offered, why_not, width, is_of_job=is_of_job)
    return page.render(parts, width=width, colour=colour)


def _list(
    offered: Sequence[ChosenFix], why_not: Mapping[str, str], width: int, *, is_of_job: bool
) -> Iterator[RenderableType]:
    rows = []
    for chosen in offered:
        if chosen.fix.id not in why_not:
            # Paths are too long for a column.
            name = chosen.fix.id if isinstance(chosen.value, str) else chosen.text
            results = chosen.fix.results
            word = "changes" if results is ResultsClass.SEMANTICS else results.value
            rows.append((name, word, chosen.summary))
    yield page.heading("Fixes that apply" if is_of_job else "Fixes")
    yield page.table(_LISTED, rows, width=width)
    if why_not:
        yield page.blank()
        yield page.heading("Not applied")
    for why in dict.fromkeys(why_not.values()):
        named = ", ".join(fix for fix, reason in why_not.items() if reason == why)
        yield page.paragraph(f"{named}: {why}.")
    yield page.blank()
    yield page.paragraph(
        "results: identical to the last bit, equal within rounding, or the fix changes what the "
        "job does and runs only when it is named."
    )
