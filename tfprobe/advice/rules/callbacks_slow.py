"""Tell of callbacks and hooks that hold up the loop."""

from __future__ import annotations

from tfprobe.advice.finding import Evidence, Finding
from tfprobe.advice.rule import Verdict
from tfprobe.advice.signals import ActivityUse, WorkSignals
from tfprobe.advice.thresholds import Thresholds
from tfprobe.errors import Missing

# Run at every tenth step instead of every step, nine tenths of it go; half is surely within reach.
LIKELY = 0.5
_KINDS = ("callbacks", "summary")
_SHOWN = 3


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where callbacks and summaries take long; the bound is all of their time.

    Those at each batch are parts of the cycle, those at the ends of epochs are activities.
    """
    parts = work.parts
    if isinstance(parts, Missing):
        return parts
    rare = _at_epochs(work)
    gain_ns = parts.of_all_steps("callbacks", "summaries") + sum(each.own_ns for each in rare)
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    if gain.high_ratio < limits.callbacks_ratio:
        return None
    cause = parts.cause("callbacks", "summaries")
    return Finding(
        title="Callbacks between steps take long",
        severity=limits.severity(gain),
        evidence=(
            Evidence("of the cycle", ratio=parts.ratio("callbacks", "summaries")),
            *(
                [Evidence(f"{cause.what} a step", time_ns=round(cause.ns), source=cause.source)]
                if cause
                else []
            ),
            *(Evidence(f"{each.name}, {each.count:,} times", time_ns=each.own_ns) for each in rare),
            work.shown_by("breakdown"),
        ),
        action="Let the callback do its work at every Nth batch or at the end of the epoch "
        "(TensorBoard: update_freq='epoch'; hooks: every_n_steps), or in a thread of its own.",
        gain=gain,
        part="callbacks",
    )


def _at_epochs(work: WorkSignals) -> tuple[ActivityUse, ...]:
    """Return activities of callbacks and summaries, the dearest; of a process its main work's."""
    uses = work.process.activities if work.is_main else ()
    return tuple(each for each in uses if each.kind in _KINDS)[:_SHOWN]
