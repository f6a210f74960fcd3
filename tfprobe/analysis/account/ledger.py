"""Sum time by category and by what it was spent on: nothing is counted twice, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tfprobe.analysis.account.categories import Category

# Items kept of each category of one process; the others are summed up.
MOST_ITEMS = 24


@dataclass(frozen=True, slots=True)
class Item:
    """What time of a category was spent on. `source` is "file:line", "" where no line is known.

    `samples` is the number of traced steps or watched gaps that it is estimated from; 0 where it
    was measured. `low_ns` and `high_ns` are the bounds of an estimate, about 95 %; None for a
    single sample. `times` is how often it happened, 0 where that is not counted.
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
    """One category: its time in ns and its items, largest first, which sum to no more than it."""

    category: Category
    ns: int
    items: tuple[Item, ...]


@dataclass(slots=True)
class Ledger:
    """Sums of time by category and item, in ns."""

    _items: dict[Category, dict[tuple[str, str], Item]] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[AccountPart]) -> Ledger:
        """Return a ledger that holds these parts."""
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
        """Return the time of a category so far."""
        return sum(item.ns for item in self._items.get(category, {}).values())

    def sum_ns(self) -> int:
        """Return the time of all categories so far."""
        return sum(map(self.total_ns, Category))

    def move(self, sources: Iterable[Category], target: Category, item: Item) -> int:
        """Move the time of an item out of other categories, in proportion; return how much."""
        chosen = [source for source in sources if self.total_ns(source)]
        available_ns = sum(map(self.total_ns, chosen))
        moved_ns = min(item.ns, available_ns)
        if moved_ns <= 0:
            return 0
        left_ns = available_ns - moved_ns
        for category in chosen:
            for key, source_item in self._items[category].items():
                self._items[category][key] = _scaled(source_item, left_ns, available_ns)
        taken_ns = available_ns - sum(map(self.total_ns, chosen))
        self.add(target, replace(item, ns=taken_ns))
        return taken_ns

    def move_item(
        self, source: Category, key: tuple[str, str], target: Category, item: Item
    ) -> None:
        """Move time from one item to an item of another category, no more than there is.

        `key` is the `what` and the `source` of the item that loses time.
        """
        before = self._items.get(source, {}).get(key)
        if before is None:
            return
        moved_ns = min(item.ns, before.ns)
        left = _scaled(before, before.ns - moved_ns, before.ns)
        self._items[source][key] = replace(left, ns=before.ns - moved_ns)
        self.add(target, replace(item, ns=moved_ns))

    def parts(self, wall_ns: int) -> tuple[AccountPart, ...]:
        """Return all categories, which sum to `wall_ns`: what is left over is NOT_KNOWN."""
        self.add(Category.NOT_KNOWN, Item("", "", wall_ns - self.sum_ns()))
        return tuple(
            AccountPart(category, self.total_ns(category), tuple(self._largest(category)))
            for category in Category
        )

    def _largest(self, category: Category) -> list[Item]:
        items = sorted(
            self._items.get(category, {}).values(),
            key=lambda item: (-item.ns, item.what, item.source),
        )
        return [item for item in items if item.ns][:MOST_ITEMS]


def merge_parts(accounts: Iterable[Iterable[AccountPart]]) -> tuple[AccountPart, ...]:
    """Return the parts of several accounts, summed."""
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
