"""The works of a run, for the choice of one of them on every page that shows one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tfprobe.profile.profile import Process
from tfprobe.web.opened import Reading

# Nobody chooses among more by their names; all others stay reachable by `work=`.
MOST_WORKS = 500
# Names of functions and fetches may be as long as somebody wants.
_NAME_CHARACTERS = 200


def works_document(run: Reading) -> list[dict[str, Any]]:
    """Return the works with most time, the dearest first: `at` is what `work=` names.

    `captures` are its sampled steps: as told by the job where captures are not read (`early`).
    Any: JSON values.
    """
    profile = run.profile
    read = Counter((capture.process, capture.work) for capture in profile.captures)
    places = {id(work): at for at, work in enumerate(profile.works)}
    return [
        {
            "at": places[id(work)],
            "kind": work.kind,
            "name": work.name[:_NAME_CHARACTERS],
            "process": work.process,
            "process_label": _label(profile.processes[work.process]),
            "total_ns": work.times.sum_ns,
            "captures": read[work.process, work.index] if read else work.sampled,
        }
        for work in run.works()[:MOST_WORKS]
    ]


def _label(process: Process) -> str:
    named = f"{process.host} {process.label}"
    return named if process.rank is None else f"rank {process.rank}, {named}"
