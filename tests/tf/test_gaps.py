"""What Python does between two steps of a real job is named, with its lines and its time."""

from __future__ import annotations

import json
from typing import Any

from tests.tf.laboratory import JOBS, Laboratory, Outcome
from tests.tf.requirements import need_tensorflow
from tfprobe.profile.activities import Call, Gap
from tfprobe.recording import open_run

FILE = str(JOBS / "gaps.py")
SLEEP_NS = 10_000_000


def gaps_of(laboratory: Laboratory, what: str) -> tuple[dict[str, Any], list[Gap]]:
    """The lines that the job told, and its gaps that a step has ended; the job noticed nothing."""
    bare, recorded = laboratory.pair("gaps.py", what)
    assert recorded.status == bare.status == 0, recorded.stderr[-2000:]
    assert recorded.stdout == bare.stdout
    profile = open_run(recorded.run).profile()
    assert profile.problems == ()
    for gap in profile.gaps:
        assert sum(call.self_ns for call in gap.calls) == gap.duration_ns
        assert 0 <= gap.cost_ns <= gap.duration_ns
        assert not [call for call in gap.calls if "tfprobe_agent" in call.file]
    return lines_of(recorded), [gap for gap in profile.gaps if not gap.cut]


def lines_of(outcome: Outcome) -> dict[str, Any]:
    text = outcome.stdout.decode()
    (told,) = [line for line in text.splitlines() if line.startswith("LINES ")]
    lines: dict[str, Any] = json.loads(told.split(" ", 1)[1])
    return lines


def find(gap: Gap, name: str) -> Call | None:
    return next((call for call in gap.calls if call.function == name), None)


def slept_ns(gap: Gap, inside: Call) -> int:
    """How long `time.sleep` took that this call made."""
    at = gap.calls.index(inside)
    return sum(c.self_ns for c in gap.calls if (c.function, c.parent) == ("time.sleep", at))


def test_a_sleeping_callback_of_fit_is_named(laboratory: Laboratory) -> None:
    """Keras' fit waits for it after each batch."""
    lines, gaps = gaps_of(laboratory, "fit")

    mine = [
        (gap, call)
        for gap in gaps
        for call in gap.calls
        if (call.file, call.line) == (FILE, lines["first"])
    ]
    assert len(mine) >= 6
    for gap, call in mine:
        assert call.function == "on_train_batch_end"
        assert gap.duration_ns >= slept_ns(gap, call) >= SLEEP_NS


def test_reading_a_value_after_each_step_is_named(laboratory: Laboratory) -> None:
    """A custom loop that asks for the loss at once, on the line where it does."""
    need_tensorflow(laboratory, (2, 0))

    lines, gaps = gaps_of(laboratory, "numpy")

    reads = [(gap, call) for gap in gaps if (call := find(gap, "numpy"))]
    assert len(reads) == len(gaps) == 7
    for gap, call in reads:
        loop = gap.calls[call.parent or 0]
        assert (loop.function, loop.file, loop.line) == ("loop", FILE, lines["first"])
        assert (call.called_line, call.count) == (lines["called"], 1)


def test_a_generator_that_feeds_a_session_is_named(laboratory: Laboratory) -> None:
    """The batches are made between the steps."""
    lines, gaps = gaps_of(laboratory, "generator")

    made = [(gap, call) for gap in gaps if (call := find(gap, "batches"))]
    assert len(made) >= 7
    for gap, call in made:
        assert (call.file, call.line, call.is_generator) == (FILE, lines["first"], True)
        assert gap.duration_ns >= slept_ns(gap, call) >= SLEEP_NS


def test_an_eager_loop_is_watched_up_to_its_tape(laboratory: Laboratory) -> None:
    """Where its next step can be traced from."""
    need_tensorflow(laboratory, (2, 0))

    _, gaps = gaps_of(laboratory, "eager")

    made = [(gap, call) for gap in gaps if (call := find(gap, "batches"))]
    assert len(made) >= 5
    for gap, call in made:
        assert gap.duration_ns >= slept_ns(gap, call) >= SLEEP_NS
