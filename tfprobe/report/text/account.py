"""Render where the wall time of a run went: a sentence, a strip of time, and the parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from tfprobe.analysis.account.account import Account, Strip
from tfprobe.analysis.account.categories import LABELS, WENT_TO, Category
from tfprobe.analysis.account.ledger import AccountPart, Item
from tfprobe.errors import Missing
from tfprobe.report.format import numbers, page
from tfprobe.report.format.page import TextColumn

# The mark of each category, readable without colour, and its colour if it has one.
_MARKS: Mapping[Category, tuple[str, str]] = {
    Category.INTERPRETER_START: ("·", "dim"),
    Category.IMPORTS: ("i", "dim"),
    Category.PREPARATION: ("-", "blue"),
    Category.COMPILE: ("#", "magenta"),
    Category.WARM_UP: ("~", "yellow"),
    Category.PRODUCTIVE: ("=", "green"),
    Category.INPUT_WAIT: ("w", "red"),
    Category.EVALUATION: ("e", "cyan"),
    Category.CHECKPOINTS: ("c", "blue"),
    Category.CALLBACKS: ("b", "red"),
    Category.EPOCH_ENDS: ("|", "yellow"),
    Category.PYTHON: ("p", "red"),
    Category.COLLECTION: ("g", "red"),
    Category.RECORDING: ("r", "dim"),
    Category.OTHERS: ("o", "red"),
    Category.IDLE: (".", "dim"),
    Category.NOT_KNOWN: ("?", "dim"),
}
# Besides productive steps, the sentence names at most this many parts, each of at least this share.
_NAMED_PARTS = 3
_NAMED_RATIO = 0.03
# Parts with a smaller share of the wall time get no row; --json has all.
_SHOWN_RATIO = 0.02
_SHOWN_ITEMS = 2
_WIDEST_STRIP = 100
_STEPS_WITHOUT_SAMPLES = "one traced step alone divides the steps: no interval is known"


def sentence(account: Account) -> str:
    """Return how much of the time was productive, and where most of the rest went, in one line."""
    processes = "" if account.processes == 1 else f" in {account.processes} processes"
    of_time = f"{numbers.duration(account.wall_ns)}{processes}"
    rest = sorted(
        (part for part in account.parts if part.category is not Category.PRODUCTIVE),
        key=lambda part: -part.ns,
    )
    named = [part for part in rest if part.ns >= _NAMED_RATIO * account.wall_ns][:_NAMED_PARTS]
    went = [_went(part, account.wall_ns) for part in named]
    if not account.steps:
        return f"No step was completed in {of_time}; {', '.join(went)}."
    good = f"{numbers.percent(account.goodput_ratio)} of {of_time} were productive steps"
    return f"{'; '.join([good, *([', '.join(went)] if went else [])])}."


def _went(part: AccountPart, wall_ns: int) -> str:
    share = numbers.percent(part.ns / wall_ns)
    return f"{share} went to {WENT_TO[part.category]}{_where(part)}"


def short(account: Account) -> str:
    """Return the goodput in a few characters."""
    return numbers.percent(account.goodput_ratio) if account.steps else numbers.NOTHING


def account_parts(account: Account | Missing, width: int) -> Iterator[RenderableType]:
    """Yield the section about the wall time."""
    yield page.heading("Where the time went")
    if isinstance(account, Missing):
        yield page.paragraph(f"no account of the time: {account.reason}")
        return
    yield page.paragraph(sentence(account))
    if account.strip is not None:
        yield Padding(_strip(account.strip, min(max(width - 2, 20), _WIDEST_STRIP)), (0, 0, 0, 2))
    shown = _shown(account)
    columns = [
        TextColumn("", is_number=False),
        TextColumn("part", is_number=False),
        TextColumn("time"),
        TextColumn("share"),
        TextColumn("most of it", is_number=False, may_be_cut=True),
    ]
    yield page.table(columns, [_row(part, account.wall_ns) for part in shown], width=width)
    hidden_ns = account.wall_ns - sum(part.ns for part in shown)
    if hidden_ns > 0:
        share = numbers.percent(hidden_ns / account.wall_ns)
        yield page.paragraph(f"and {share} in smaller parts; --json has all")
    if _rests_on_one(shown):
        yield page.paragraph(_STEPS_WITHOUT_SAMPLES)


def rows(account: Account) -> Iterator[list[str]]:
    """Yield name, main items, time and share of each part that is large enough to be shown."""
    for part in _shown(account):
        _, name, time, share, most = _row(part, account.wall_ns)
        yield [name, most, time, share]


def _shown(account: Account) -> list[AccountPart]:
    return [part for part in account.parts if part.ns >= _SHOWN_RATIO * account.wall_ns]


def _row(part: AccountPart, wall_ns: int) -> list[str]:
    mark, _ = _MARKS[part.category]
    time, share = numbers.duration(part.ns), numbers.percent(part.ns / wall_ns)
    return [mark, LABELS[part.category], time, share, _items(part)]


def _items(part: AccountPart) -> str:
    """Name the largest items of a part, with their shares if there are several."""
    named = [item for item in part.items if item.what or item.source]
    texts = []
    for item in named[:_SHOWN_ITEMS]:
        share = f"{numbers.percent(item.ns / part.ns)} " if len(named) > 1 else ""
        texts.append(f"{share}{_name(item)}")
    return ", ".join(texts)


def _name(item: Item) -> str:
    what = f"{item.times:,} times {item.what}" if item.times > 1 else item.what
    place = _place(item.source) if item.source else ""
    return f"{what} ({place})" if place and what else what or place


def _place(source: str) -> str:
    path, _, line = source.rpartition(":")
    return f"{page.short_path(path)}:{line}"


def _where(part: AccountPart) -> str:
    """Return the place that took more than half of a part, in brackets, or ""."""
    named = [item for item in part.items if item.what or item.source]
    if not named or named[0].ns * 2 <= part.ns:
        return ""
    first = named[0]
    if first.source:
        return f" ({_place(first.source)}, {first.what})"
    return f" ({first.what})" if first.what else ""


def _rests_on_one(shown: Sequence[AccountPart]) -> bool:
    items = [
        item for part in shown if part.category is Category.PRODUCTIVE for item in part.items[:1]
    ]
    return any(item.samples == 1 for item in items)


def _strip(strip: Strip, wide: int) -> Text:
    """Draw the category of each cell of the axis."""
    text = Text(no_wrap=True)
    count = len(strip.slices)
    for cell in range(wide):
        mark, style = _MARKS[strip.slices[min(cell * count // wide, count - 1)]]
        text.append(mark, style=style)
    return text
