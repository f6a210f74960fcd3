"""Turn a run directory into a profile. What cannot be read becomes a problem with its place."""

from __future__ import annotations

from collections.abc import Callable

from tfprobe.profile.profile import Profile
from tfprobe.profile.reader.following import Following
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine


def load(
    folder: RunFolder,
    here: Machine,
    *,
    rank: int | None = None,
    with_captures: bool = True,
    with_memory: bool = True,
    with_spans: bool = True,
    watch: Callable[[int, int], None] | None = None,
) -> Profile:
    """Read a run; `rank` keeps the processes of one rank, `with_captures` reads the op rows.

    Without `with_memory` the bytes of ops may be 0 whatever was recorded. Without `with_spans`
    there are no spans and no allocations, and rows do not tell which iterator of tf.data ran them:
    for those who need executions alone, and fast.
    `watch(done, all)` is told how many captures have been read.

    Raises NoAnswer when no process has that rank.
    """
    following = Following(
        folder,
        here,
        rank=rank,
        with_captures=with_captures,
        with_memory=with_memory,
        with_spans=with_spans,
    )
    return following.refresh(watch)
