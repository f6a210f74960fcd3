"""Make items of shares."""

from __future__ import annotations

from tfprobe.analysis.account.ledger import Item
from tfprobe.analysis.account.shares import Share
from tfprobe.analysis.breakdown.step_parts import LABELS, Part


def label(part: Part) -> str:
    """Name a part of a step or a gap."""
    # Of a process "idle" is another thing.
    return "no op runs" if part is Part.IDLE else LABELS[part]


def item_of(share: Share, what: str, ns: int, samples: int) -> Item:
    """Return the item that a share of some time is."""
    low = None if share.low is None else int(share.low * ns)
    high = None if share.high is None else int(share.high * ns)
    return Item(what, share.source, int(share.ratio * ns), samples, low, high)
