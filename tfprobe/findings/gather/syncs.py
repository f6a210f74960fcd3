"""Gather where Python asks for the value of a tensor between steps."""

from __future__ import annotations

import re
from collections import Counter

from tfprobe.analysis.breakdown.watched_gaps import followed
from tfprobe.errors import Missing
from tfprobe.findings.signals import Syncs
from tfprobe.profile.activities import Call, Gap
from tfprobe.profile.profile import Profile, Work

# The class of eager tensors lives in one of these.
_FILE = re.compile(r"tensorflow(_core)?/python/(framework/(ops|tensor)|eager/context)\.py$")
_NAME = re.compile(r"^(_?numpy|_numpy_internal|__(float|int|bool|array|index|complex|long)__)$")
_IN_C = re.compile(r"EagerTensor\._?numpy|_numpy_internal")
_LIBRARY = re.compile(r"/(site-packages|dist-packages|lib/python\d)|^<frozen|^$")


def syncs(profile: Profile, work: Work) -> Syncs | Missing:
    """Return the reads of tensors in the watched gaps of a work."""
    gaps = [
        gap for gap in followed(profile) if gap.process == work.process and gap.work == work.index
    ]
    if not gaps:
        return Missing("the time between its steps was not watched")
    sources: Counter[tuple[str, str]] = Counter()
    total_ns, with_one = 0, 0
    for gap in gaps:
        reads = _reads(gap)
        with_one += bool(reads)
        total_ns += sum(_whole_ns(gap, at) for at in reads)
        for at in reads:
            sources[gap.calls[at].function, _source(gap.calls, at)] += gap.calls[at].count
    function, source = sources.most_common(1)[0][0] if sources else ("", "")
    return Syncs(
        gaps=len(gaps),
        ratio=with_one / len(gaps),
        calls=sum(sources.values()) / len(gaps),
        ns=total_ns / len(gaps),
        function=function,
        source=source,
    )


def _reads(gap: Gap) -> list[int]:
    """Return the outermost calls that read a tensor."""
    found: set[int] = set()
    inside: set[int] = set()
    for at, call in enumerate(gap.calls):
        if call.parent is not None and call.parent in found | inside:
            inside.add(at)
        elif _is_read(call):
            found.add(at)
    return sorted(found)


def _is_read(call: Call) -> bool:
    if not call.file:
        return bool(_IN_C.search(call.function))
    return bool(_FILE.search(call.file) and _NAME.match(call.function))


def _whole_ns(gap: Gap, at: int) -> int:
    """Return the time of a call with all below it, without the cost of watching them."""
    below = {at}
    for position, call in enumerate(gap.calls):
        if call.parent in below:
            below.add(position)
    calls = sum(call.count for call in gap.calls) or 1
    cost_ns = gap.cost_ns * sum(gap.calls[each].count for each in below) // calls
    return max(sum(gap.calls[each].self_ns for each in below) - cost_ns, 0)


def _source(calls: tuple[Call, ...], at: int) -> str:
    """Return the line of the job's own code from which a call was reached."""
    line, parent = calls[at].called_line, calls[at].parent
    while parent is not None:
        caller = calls[parent]
        if not _LIBRARY.search(caller.file):
            return f"{caller.file}:{line}"
        line, parent = caller.called_line, caller.parent
    return ""
