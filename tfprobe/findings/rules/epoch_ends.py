"""Tell of epochs whose ends take long: the data set ends there, and its iterator starts anew."""

from __future__ import annotations

from tfprobe.analysis.account.categories import Category
from tfprobe.errors import Missing
from tfprobe.findings.finding import Evidence, Finding
from tfprobe.findings.rule import Verdict
from tfprobe.findings.signals import ProcessSignals
from tfprobe.findings.thresholds import Thresholds

# With a data set that repeats, the end of an epoch of Keras 3 took 1 to 2 ms in place of 250.
LIKELY = 0.9
_SHOWN = 2


def check(process: ProcessSignals, limits: Thresholds) -> Verdict:
    """Return a finding where the ends of epochs take a share of the whole process."""
    account = process.account
    if isinstance(account, Missing):
        return account
    # What the return of the last call takes stays: it ends once.
    ends = [each for each in account.items(Category.EPOCH_ENDS) if each.times > 1]
    high_ns = sum(each.ns for each in ends)
    gain = process.of_wall(high_ns, round(LIKELY * high_ns))
    if not ends or gain.high_ratio < limits.epoch_ends_ratio:
        return None
    times = max(each.times for each in ends)
    return Finding(
        title=f"The ends of {times:,} epochs take long",
        severity=limits.severity(gain),
        evidence=(
            *(Evidence(each.what, time_ns=each.ns, source=each.source) for each in ends[:_SHOWN]),
            Evidence("an end", time_ns=high_ns // times),
        ),
        action="Train from a data set that goes on over all epochs, so that its iterator is made "
        "once: Dataset.from_tensor_slices(...).shuffle(N).repeat().batch(B).prefetch(2), with "
        "steps_per_epoch.",
        gain=gain,
        part="epoch_ends",
    )
