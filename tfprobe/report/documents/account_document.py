"""Write accounts as documents: times in ns, ratios of the wall time that sum to exactly 1."""

from __future__ import annotations

from tfprobe.analysis.account.account import Account, Strip
from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.ledger import AccountPart, Item
from tfprobe.errors import Missing
from tfprobe.report.documents.document import Document

# Every ratio is a multiple of 1 / this. A binary float holds it and the sums exactly, and it is as
# near to the quotient as any: texts, which divide, and pages round it alike.
_RESOLUTION = 1 << 52


def account_document(account: Account | Missing) -> Document:
    """Return an account as every document shows it."""
    if isinstance(account, Missing):
        # None, so that every account has the same keys; "missing" says why.
        names = ("wall_ns", "goodput_ratio", "processes", "steps", "loop", "parts", "strip")
        return {**dict.fromkeys(names), "missing": account.reason}
    units = _units(account)
    parts = [_part(part, units[part.category], account.wall_ns) for part in account.parts]
    return {
        "wall_ns": account.wall_ns,
        "goodput_ratio": units[Category.PRODUCTIVE] / _RESOLUTION,
        "processes": account.processes,
        "steps": account.steps,
        "loop": None if account.loop is None else " ".join(account.loop).strip(),
        "parts": parts,
        "strip": _strip(account.strip),
    }


def _units(account: Account) -> dict[Category, int]:
    wall_ns = account.wall_ns or 1
    units = {part.category: part.ns * _RESOLUTION // wall_ns for part in account.parts}
    units[Category.NOT_KNOWN] += _RESOLUTION - sum(units.values())
    return units


def _part(part: AccountPart, units: int, wall_ns: int) -> Document:
    return {
        "part": part.category.value,
        "ns": part.ns,
        "ratio": units / _RESOLUTION,
        "of": [_item(item, wall_ns) for item in part.items if item.what or item.source],
    }


def _item(item: Item, wall_ns: int) -> Document:
    return {
        "what": item.what,
        "source": item.source,
        "ns": item.ns,
        "ratio": item.ns / (wall_ns or 1),
        "times": item.times or None,
        "samples": item.samples or None,
        "low_ns": item.low_ns,
        "high_ns": item.high_ns,
    }


def _strip(strip: Strip | None) -> Document | None:
    if strip is None:
        return None
    return {
        "start_unix_ns": strip.start_ns,
        "end_unix_ns": strip.end_ns,
        "slices": [each.value for each in strip.slices],
    }
