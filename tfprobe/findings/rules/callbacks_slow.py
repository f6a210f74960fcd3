"""Tell of callbacks and hooks that hold up the loop."""

from __future__ import annotations

from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ActivityUse, Waste, WorkSignals
from tfprobe.findings.thresholds import Thresholds

# Run at every tenth step instead of every step, nine tenths of it go, and what it held up with it.
LIKELY = 0.8
_KINDS = ("callbacks", "summary")
_SHOWN = 3
_EVERY_BATCH = (
    "Let the callback do its work at every Nth batch or at the end of the epoch (hooks: "
    "every_n_steps), or in a thread of its own. Values that it reads from logs are waited for."
)
_SUMMARIES = (
    "Write summaries at every Nth step, or of an epoch (TensorBoard: update_freq='epoch'; hooks: "
    "save_steps), and no histograms of all weights."
)
_TENSORBOARD = (
    "The TensorBoard callback of Keras 3 makes scalars of each batch, whatever its update_freq: "
    "leave it out, and write what you look at by a callback of your own at the ends of epochs."
)
_PROGRESS_BAR = "The progress bar is drawn at each batch: fit(..., verbose=2) tells of epochs only."
_AT_EPOCHS = (
    "It is what callbacks do at the ends of epochs: TensorBoard(histogram_freq=0) writes no "
    "histograms of all weights; validate, draw and save at every Nth epoch."
)


def check(work: WorkSignals, limits: Thresholds) -> Verdict:
    """Return a finding where callbacks and summaries take long.

    The bound is all of their time, and what it takes to fetch results: many are fetched for nobody
    else. Those at each batch are parts of the cycle, those at
    the ends of epochs are activities.
    """
    parts = work.parts
    if isinstance(parts, Missing):
        return parts
    rare = _at_epochs(work)
    rare_ns = sum(each.own_ns for each in rare)
    own_ns = parts.of_all_steps("callbacks", "summaries") + rare_ns
    if work.gain(own_ns, 0).high_ratio < limits.callbacks_ratio:
        return None
    gain_ns = own_ns + parts.of_all_steps("fetch")
    gain = work.gain(gain_ns, LIKELY * gain_ns)
    is_rare = rare_ns > own_ns / 2
    # What each batch costs besides is not what it is about.
    cause = None if is_rare else parts.cause("callbacks", "summaries")
    return Finding(
        title="Callbacks between steps take long",
        severity=limits.severity(gain),
        evidence=(
            *(
                []
                if is_rare
                else [Evidence("of the cycle", ratio=parts.ratio("callbacks", "summaries"))]
            ),
            *(
                [Evidence(f"{cause.what} a step", time_ns=round(cause.ns), source=cause.source)]
                if cause
                else []
            ),
            *(
                Evidence(
                    f"{each.name}, {each.count:,} times", time_ns=each.own_ns, source=each.source
                )
                for each in rare
            ),
            work.shown_by("breakdown"),
        ),
        action=_action(cause, is_rare),
        gain=gain,
        part="callbacks",
    )


def _action(cause: Waste | None, is_rare: bool) -> str:
    """Return what to do about what was seen: at the ends of epochs there are no batches to skip."""
    if is_rare:
        return _AT_EPOCHS
    if cause is not None and "progbar" in cause.what:
        return _PROGRESS_BAR
    if cause is not None and cause.what.startswith("tensorboard.on_train_batch"):
        return _TENSORBOARD
    if cause is not None and cause.part == "summaries":
        return _SUMMARIES
    return _EVERY_BATCH


def _at_epochs(work: WorkSignals) -> tuple[ActivityUse, ...]:
    """Return activities of callbacks and summaries, the dearest; of a process its main work's."""
    uses = work.process.activities if work.is_main else ()
    return tuple(each for each in uses if each.kind in _KINDS)[:_SHOWN]
