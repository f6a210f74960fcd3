"""Choose the gaps that lie between two steps, as gaps of their work usually do."""

from __future__ import annotations

from tfprobe.model.activities import Gap
from tfprobe.model.profile import Profile


def followed(profile: Profile, *, with_foreseen: bool = False) -> tuple[Gap, ...]:
    """Return the gaps without those that were watched because a long one was due, unless wanted.

    Without those after the last step of a work, too: they led to no step. A gap that is cut before
    that is kept: only its watch ended early.
    """
    executed = {(work.process, work.index): work.executed for work in profile.works}
    return tuple(
        gap
        for gap in profile.gaps
        if with_foreseen or gap.why != "foreseen"
        if not gap.cut or gap.step + 1 < executed.get((gap.process, gap.work), 0)
    )
