"""What tracing adds to a DataLoader without workers is no time of the job."""

from __future__ import annotations

from dataclasses import replace

from tests.support.profiles import Span, Step, loop, op, profile
from tfprobe.analysis.breakdown.cycles import parts_by_loop
from tfprobe.analysis.breakdown.inside_lines import loader_calls
from tfprobe.analysis.breakdown.step_parts import Part
from tfprobe.errors import Missing
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.profile.profile import Profile

US = 1_000


def _profile(*batch_us: int | None, traced_us: int = 400) -> Profile:
    """Return steps of 1 ms that take two batches each, and what is known of other batches."""
    spans = (
        *(
            Span(SpanKind.LOADER_WORK, "DataLoader", at_us, traced_us / 2)
            for at_us in (0, traced_us // 2)
        ),
        Span(SpanKind.LOADER_CALLS, "dataset", 0, traced_us, detail="data.py:9", identity=2),
    )
    steps = [Step([op("aten::mm", traced_us, 1000 - traced_us)], 1000, spans=spans)]
    found = profile(steps * len(batch_us), loops=[loop(kind="optimizer_step")])
    captures = tuple(
        replace(capture, batch_ns=Missing("unknown") if us is None else us * US)
        for capture, us in zip(found.captures, batch_us, strict=True)
    )
    return replace(found, captures=captures)


def _parts(found: Profile) -> list[dict[Part, int]]:
    (item,) = parts_by_loop(found)
    return [{part: ns // US for part, ns in step.inside.items() if ns} for step in item.steps]


def test_batches_count_as_long_as_they_take_in_other_steps() -> None:
    """The rest is recording; each capture has its own measure, or none."""
    assert _parts(_profile(50, None)) == [
        {Part.HOST_PREPROCESS: 100, Part.HOST_COMPUTE: 600, Part.RECORDING: 300},
        {Part.HOST_PREPROCESS: 400, Part.HOST_COMPUTE: 600},
    ]


def test_the_rest_of_the_step_is_as_long_as_in_other_steps_too() -> None:
    """Else a part that is corrected would seem smaller than it is."""
    found = _profile(50)
    captures = tuple(replace(each, plain_ns=400 * US) for each in found.captures)

    assert _parts(replace(found, captures=captures)) == [
        {Part.HOST_PREPROCESS: 100, Part.HOST_COMPUTE: 300, Part.RECORDING: 600}
    ]


def test_a_batch_of_batches_counts_once() -> None:
    """A data set may read another loader."""
    spans = (
        Span(SpanKind.LOADER_WORK, "DataLoader", 0, 400),
        *(Span(SpanKind.LOADER_WORK, "DataLoader", at_us, 90) for at_us in (10, 110, 210)),
    )
    steps = [Step([op("aten::mm", 400, 600)], 1000, spans=spans)]
    found = profile(steps, loops=[loop(kind="optimizer_step")])
    captures = tuple(replace(each, batch_ns=150 * US) for each in found.captures)

    (parts,) = _parts(replace(found, captures=captures))

    assert parts[Part.HOST_PREPROCESS] == 150


def test_a_batch_that_was_made_faster_than_usual_stays() -> None:
    """Nothing is invented."""
    assert _parts(_profile(900)) == [{Part.HOST_PREPROCESS: 400, Part.HOST_COMPUTE: 600}]


def test_the_stages_of_the_loader_are_shortened_alike() -> None:
    """They are shown as parts of it."""
    found = _profile(50, None)

    assert loader_calls(found, found.captures) == {("dataset", "data.py:9"): (100 + 400) * US}
