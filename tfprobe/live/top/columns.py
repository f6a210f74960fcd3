"""The columns of the page: what each shows, what it is ordered by, and which go where it is narrow.

Nothing here is drawn: a cell is texts with styles, for the live page and for the one table alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from tfprobe.analysis.jobs.fleet import ProcessRow
from tfprobe.analysis.jobs.job_totals import is_live
from tfprobe.errors import Missing
from tfprobe.live.top import cells
from tfprobe.live.top.cells import NOTHING, Cell, standing
from tfprobe.live.top.lines import LineOrder, ListLine, Value, command_text
from tfprobe.printable import printable
from tfprobe.profile.profile import titled
from tfprobe.report.format import numbers

GAP = 2
# The shortest name that still distinguishes jobs, on the narrowest page; where there is
# more room every fourth cell is the name's before another column comes.
_SHORT_NAME = 14
_NAME_FROM_WIDTH = 80
_NAME_SHARE = 4
# Longer names are cut before the bar and the trend are kept small.
_LONG_NAME = 44
# Below this width a state is shown without a time.
_NARROW = 60
_SHORT_STATE = 10


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column. `importance` 0 is the last to go; `grows_to` what more room is good for.

    `value` is what lines are ordered by, None for what has no order. In a drawing what is empty
    says as much as what is full.
    """

    name: str
    heading: str
    width: int
    importance: int
    cell: Callable[[ListLine, int], Cell]
    value: Callable[[ListLine], Value] | None = None
    grows_to: int = 0
    is_number: bool = True
    largest_first: bool = True
    is_drawing: bool = False


@dataclass(frozen=True, slots=True)
class Fitted:
    """A column that is shown: where it begins and how wide it is."""

    column: ListColumn
    start: int
    width: int


def fit(found: Sequence[ListLine], width: int) -> tuple[Fitted, ...]:
    """Choose the columns that fit a page and share its width out among them."""
    name, state = COLUMNS[0], COLUMNS[1]
    least = {column.name: column.width for column in COLUMNS}
    natural = max((cell_len(_text(name.cell(line, 0))) for line in found), default=0)
    least[name.name] = min(max(natural, len(name.heading)), _least_name(width))
    # As wide as the longest state there is; on a narrow page as the word alone.
    longest = max((cell_len(_text(state.cell(line, state.width))) for line in found), default=0)
    least[state.name] = min(longest, state.width) if width >= _NARROW else _SHORT_STATE
    # The name is there on whatever is called a page.
    least[name.name] = min(least[name.name], max(width, 1))
    chosen, used = [name], least[name.name]
    for column in sorted(COLUMNS[1:], key=lambda candidate: candidate.importance):
        if used + GAP + least[column.name] > width or not _is_known(column, found):
            continue
        chosen.append(column)
        used += GAP + least[column.name]
    return _placed(chosen, least, natural, width - used)


def _least_name(width: int) -> int:
    return _SHORT_NAME + max(width - _NAME_FROM_WIDTH, 0) // _NAME_SHARE


def _is_known(column: ListColumn, found: Sequence[ListLine]) -> bool:
    """Say whether there is anything in a column that only some machines have."""
    if column.name not in _MAY_BE_UNKNOWN:
        return True
    return any(column.cell(line, column.width) != NOTHING for line in found)


def _placed(
    chosen: list[ListColumn], least: dict[str, int], natural: int, spare: int
) -> tuple[Fitted, ...]:
    widths = {column.name: least[column.name] for column in chosen}
    wished = [(COLUMNS[0].name, min(natural, _LONG_NAME))]
    wished += [(column.name, column.grows_to) for column in chosen if column.grows_to]
    wished += [(COLUMNS[0].name, natural)]
    for name, wish in wished:
        more = max(min(wish - widths[name], spare), 0)
        widths[name] += more
        spare -= more
    start = 0
    placed = []
    for column in COLUMNS:
        if column not in chosen:
            continue
        placed.append(Fitted(column, start, widths[column.name]))
        start += widths[column.name] + GAP
    return tuple(placed)


def shown(cell: Cell, fitted: Fitted) -> Cell:
    """Return a cell cut or padded to its column; numbers to the right."""
    room, parts = fitted.width, []
    for text, style in cell:
        plain = printable(text)
        wide = cell_len(plain)
        if wide > room:
            # What does not fit ends in an ellipsis; nothing follows it.
            plain, wide = f"{set_cell_size(plain, max(room - 1, 0)).rstrip()}…"[:room], room
            plain += " " * (room - cell_len(plain))
        parts.append((plain, style))
        room -= wide
        if not room:
            break
    blanks = (((" " * room), ""),) if room else ()
    return (*blanks, *parts) if fitted.column.is_number else (*parts, *blanks)


def order_of(column: ListColumn, *, turned_round: bool) -> LineOrder:
    """Return the order by a column; `turned_round` is the other way from what one looks for."""
    return LineOrder(
        column.value or _newest,
        column.largest_first != turned_round,
        of_processes=column.value is not _newest,
    )


def _text(cell: Cell) -> str:
    return printable("".join(text for text, _ in cell))


def _name(line: ListLine, _width: int) -> Cell:
    if line.is_process and not isinstance(line.row, Missing):
        branch = "└ " if line.is_last else "├ "
        return ((f"  {branch}", "dim"), (_process_name(line, line.row), ""))
    fold = "  " if line.is_open is None else ("▾ " if line.is_open else "▸ ")
    style = "bold" if is_live(line.run.state) else ""
    # Before the command: where that is cut, the number is still to be seen.
    many = f"{len(line.run.processes)}× " if line.is_open is not None else ""
    return ((fold, "dim"), (many, "cyan"), (command_text(line.run), style))


def _process_name(line: ListLine, row: ProcessRow) -> str:
    who = process_named(row)
    several_hosts = len({process.host for process in line.run.processes}) > 1
    return f"{who} {row.host}" if several_hosts else who


def process_named(row: ProcessRow) -> str:
    """Return what distinguishes a process from the others of its run."""
    number = f"pid {row.pid}" if row.rank is None else f"{row.role or 'rank'} {row.rank}"
    return titled(number, row.title)


def _state(line: ListLine, width: int) -> Cell:
    found = standing(line.run, line.row, line.at_unix_ns)
    return ((found.text(width), found.style),)


def _of_row(write: Callable[[ProcessRow, int], Cell]) -> Callable[[ListLine, int], Cell]:
    def cell(line: ListLine, width: int) -> Cell:
        return NOTHING if isinstance(line.row, Missing) else write(line.row, width)

    return cell


def _number(read: Callable[[ProcessRow], float | Missing]) -> Callable[[ListLine], Value]:
    def value(line: ListLine) -> Value:
        found = line.row if isinstance(line.row, Missing) else read(line.row)
        return None if isinstance(found, Missing) else found

    return value


def _rate(row: ProcessRow, _width: int) -> Cell:
    # That a job has ended is in its state; its rate is none, not 0.
    if not is_live(row.state):
        return NOTHING
    return cells.known(row.steps_per_s, cells.per_second, "bold")


def _newest(line: ListLine) -> Value:
    row = line.row if line.is_process else line.run
    started = row if isinstance(row, Missing) else row.started_unix_ns
    return None if isinstance(started, Missing) else started


def _started(line: ListLine, _width: int) -> Cell:
    started = _newest(line)
    if not isinstance(started, (int, float)):
        return NOTHING
    return ((cells.age(line.at_unix_ns - started), ""),)


def _before(row: ProcessRow) -> float | Missing:
    return row.shares if isinstance(row.shares, Missing) else row.shares.before_ratio


def _host(line: ListLine, _width: int) -> Cell:
    if line.is_process and not isinstance(line.row, Missing):
        return ((line.row.host, ""),)
    hosts = sorted({row.host for row in line.run.processes})
    if not hosts:
        return cells.known_text(line.run.host)
    more = f" +{len(hosts) - 1}" if len(hosts) > 1 else ""
    return ((f"{hosts[0]}{more}", ""),)


def _user(line: ListLine, _width: int) -> Cell:
    return cells.known_text(line.run.user)


def _pid(line: ListLine, _width: int) -> Cell:
    if isinstance(line.row, Missing) or line.is_open is not None:
        return NOTHING
    return ((str(line.row.pid), ""),)


def _percents(row: ProcessRow, _width: int) -> Cell:
    if isinstance(row.shares, Missing):
        return NOTHING
    parts = zip(cells.PARTS, cells.ratios(row.shares), strict=True)
    texts = [(f"{ratio * 100:3.0f}", style) for (_, _, style), ratio in parts]
    return tuple(part for text in texts[:3] for part in (text, (" ", "")))[:-1]


# From left to right.
COLUMNS: tuple[ListColumn, ...] = (
    ListColumn("name", "run", 14, 0, _name, lambda line: command_text(line.run).casefold(),
           is_number=False, largest_first=False),
    ListColumn("state", "state", 13, 1, _state, is_number=False),
    ListColumn("steps/s", "steps/s", 7, 2, _of_row(_rate), _number(lambda row: row.steps_per_s)),
    ListColumn("p50", "p50", 7, 3,
           _of_row(lambda row, _: cells.known(row.p50_ns, cells.step_time)),
           _number(lambda row: row.p50_ns)),
    ListColumn("p95", "p95", 7, 5,
           _of_row(lambda row, _: cells.slow_steps(row.p95_ns, row.p50_ns)),
           _number(lambda row: row.p95_ns)),
    ListColumn("trend", "trend", 8, 6,
           _of_row(lambda row, width: cells.trend(row.trend_ns, width)),
           grows_to=24, is_number=False, is_drawing=True),
    ListColumn("where", "where", 8, 4,
           _of_row(lambda row, width: cells.shares_bar(row.shares, width)),
           _number(_before), grows_to=16, is_number=False, is_drawing=True),
    ListColumn("percents", "bef/on/aft %", 12, 13, _of_row(_percents)),
    ListColumn("goodput", "goodput", 7, 10,
           _of_row(lambda row, _: cells.known(row.goodput_ratio, cells.whole_percent)),
           _number(lambda row: row.goodput_ratio)),
    ListColumn("gpu", "gpu", 5, 7,
           _of_row(lambda row, _: cells.known(row.gpu_ratio, cells.whole_percent)),
           _number(lambda row: row.gpu_ratio)),
    ListColumn("gpu memory", "gpu mem", 8, 11,
           _of_row(lambda row, _: cells.known(row.gpu_memory_bytes, numbers.size)),
           _number(lambda row: row.gpu_memory_bytes)),
    ListColumn("cpus", "cpus", 5, 8,
           _of_row(lambda row, _: cells.known(row.cpus_used, cells.cores)),
           _number(lambda row: row.cpus_used)),
    ListColumn("memory", "memory", 8, 9,
           _of_row(lambda row, _: cells.known(row.resident_bytes, numbers.size)),
           _number(lambda row: row.resident_bytes)),
    ListColumn("cost", "cost", 7, 12, _of_row(lambda row, _: cells.overhead(row.overhead_ratio)),
           _number(lambda row: row.overhead_ratio)),
    ListColumn("samples", "samples", 7, 14,
           _of_row(lambda row, _: cells.samples(row.captures, row.samples_left)),
           _number(lambda row: row.captures)),
    ListColumn("steps", "steps", 10, 15, _of_row(lambda row, _: ((numbers.count(row.steps), ""),)),
           _number(lambda row: row.steps)),
    ListColumn("started", "started", 7, 16, _started, _newest),
    ListColumn("pid", "pid", 7, 17, _pid, _number(lambda row: row.pid), largest_first=False),
    ListColumn("host", "host", 10, 18, _host, is_number=False, grows_to=20),
    ListColumn("user", "user", 8, 19, _user, is_number=False, grows_to=12),
)  # fmt: skip
_MAY_BE_UNKNOWN = ("goodput", "gpu", "gpu memory")
# What `s` goes through, by what people look for: the newest, the slowest, the busiest ...
ORDERS: tuple[str, ...] = (
    "started", "steps/s", "p50", "p95", "where", "goodput", "gpu", "cpus", "memory", "cost",
    "steps", "name",
)  # fmt: skip
BY_NAME = {column.name: column for column in COLUMNS}
