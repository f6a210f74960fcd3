"""Keep sums by category and by what they went to: nothing is counted twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tfprobe.analysis.account.categories import Category

# What one process keeps of each category; the rest stands together.
MOST_ITEMS = 24


@dataclass(frozen=True, slots=True)
class Item:
    """What time of a category went to. `source` is "file:line", "" where no line is known.

    `samples` is how many traced steps or watched gaps divided it; 0 where it was measured whole.
    `low_ns` and `high_ns` bound it then, about 95 %; None where one sample alone tells. `times` is
    how often it was, 0 where that is not counted.
    """

    what: str
    source: str
    ns: int
    samples: int = 0
    low_ns: int | None = None
    high_ns: int | None = None
    times: int = 0


@dataclass(frozen=True, slots=True)
class AccountPart:
    """One category: its time in ns, and what it went to, largest first; items sum to at most it."""

    category: Category
    ns: int
    items: tuple[Item, ...]


@dataclass(slots=True)
class Ledger:
    """Sums in the making, in ns."""

    _items: dict[Category, dict[tuple[str, str], Item]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[AccountPart]) -> Ledger:
        """Return the sums that parts are."""
        ledger = cls()
        for part in parts:
            for item in part.items:
                ledger.add(part.category, item)
            rest_ns = part.ns - sum(item.ns for item in part.items)
            ledger.add(part.category, Item("", "", rest_ns))
        return ledger

    def add(self, category: Category, item: Item) -> None:
        """Add time to a category."""
        if item.ns <= 0:
            return
        items = self._items.setdefault(category, {})
        key = (item.what, item.source)
        items[key] = _sum(items[key], item) if key in items else item

    def total_ns(self, category: Category) -> int:
        """Return what a category has so far."""
        return sum(each.ns for each in self._items.get(category, {}).values())

    def sum_ns(self) -> int:
        """Return what all categories have so far."""
        return sum(map(self.total_ns, Category))

    def move(self, sources: Iterable[Category], target: Category, item: Item) -> int:
        """Take time out of categories, in their shares, for an item of another; return how much."""
        chosen = [source for source in sources if self.total_ns(source)]
        there_ns = sum(map(self.total_ns, chosen))
        moved_ns = min(item.ns, there_ns)
        if moved_ns <= 0:
            return 0
        left_ns = there_ns - moved_ns
        for category in chosen:
            for key, each in self._items[category].items():
                self._items[category][key] = _scaled(each, left_ns, there_ns)
        taken_ns = there_ns - sum(map(self.total_ns, chosen))
        self.add(target, replace(item, ns=taken_ns))
        return taken_ns

    def move_item(
        self, source: Category, key: tuple[str, str], target: Category, item: Item
    ) -> None:
        """Take time out of one item of a category for an item of another, as far as it is there.

        `key` is what the item went to, and its source.
        """
        there = self._items.get(source, {}).get(key)
        if there is None:
            return
        moved_ns = min(item.ns, there.ns)
        left = _scaled(there, there.ns - moved_ns, there.ns)
        self._items[source][key] = replace(left, ns=there.ns - moved_ns)
        self.add(target, replace(item, ns=moved_ns))

    def parts(self, wall_ns: int) -> tuple[AccountPart, ...]:
        """Return all categories, which sum to `wall_ns`: what is left over is not known."""
        self.add(Category.NOT_KNOWN, Item("", "", wall_ns - self.sum_ns()))
        return tuple(
            AccountPart(category, self.total_ns(category), tuple(self._largest(category)))
            for category in Category
        )

    def _largest(self, category: Category) -> list[Item]:
        items = sorted(
            self._items.get(category, {}).values(),
            key=lambda each: (-each.ns, each.what, each.source),
        )
        return [item for item in items if item.ns][:MOST_ITEMS]


def merge_parts(accounts: Iterable[Iterable[AccountPart]]) -> tuple[AccountPart, ...]:
    """Return the sums of the parts of several accounts."""
    parts = [part for account in accounts for part in account]
    return Ledger.of(parts).parts(sum(part.ns for part in parts))


def _sum(one: Item, other: Item) -> Item:
    def bound(first: int | None, second: int | None) -> int | None:
        return None if first is None or second is None else first + second

    return Item(
        one.what,
        one.source,
        one.ns + other.ns,
        max(one.samples, other.samples),
        bound(one.low_ns, other.low_ns),
        bound(one.high_ns, other.high_ns),
        one.times + other.times,
    )


def _scaled(item: Item, numerator: int, denominator: int) -> Item:
    def part(ns: int | None) -> int | None:
        return None if ns is None else ns * numerator // denominator

    return Item(
        item.what,
        item.source,
        item.ns * numerator // denominator,
        item.samples,
        part(item.low_ns),
        part(item.high_ns),
        item.times,
    )
