"""Which lines the live page has, in which order, and what a cell says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from tests.support.fleets import MS, NOT_MEASURED, S, process_row, run_row, seen, shares
from tests.support.rundir import UNIX_NS
from tfprobe.analysis.jobs.fleet import NOT_SEEN
from tfprobe.errors import Missing
from tfprobe.live.top import cells
from tfprobe.live.top.cells import standing
from tfprobe.live.top.columns import BY_NAME, COLUMNS, GAP, fit, order_of, shown
from tfprobe.live.top.lines import command_text, lines
from tfprobe.profile.profile import Problem

_RATIOS = ("before_ratio", "on_ratio", "after_ratio", "other_ratio")
HOSTILE = (
    "[red]bold[/red]",
    "\x1b[31mred\x07\r\n",
    "\u202egnp.exe",
    "漢字" * 60,
    "טקסט" * 60,
    "e\u0301" * 60,
    "\ud800",
    "",
)


def shown_lines(look, *, by="started", round_=False, turned=(), wanted="", live_only=False):
    order = order_of(BY_NAME[by], turned_round=round_)
    return lines(look, order=order, turned=set(turned), wanted=wanted, live_only=live_only)


def names(found):
    return [line.row.pid if line.is_process else line.run.id for line in found]


def ranks(count, **changes):
    return [process_row(pid=100 + at, rank=at, role="worker", **changes) for at in range(count)]


def text(line, name, width=12):
    return "".join(part for part, _ in BY_NAME[name].cell(line, width))


def test_running_runs_come_first():
    """What has ended is below what lives, however new it is."""
    look = seen(
        run_row("new", process_row(state="finished"), state="finished"),
        run_row("stopped", process_row(state="stopped"), state="stopped"),
        run_row("old"),
    )

    assert names(shown_lines(look)) == ["stopped", "old", "new"]


def test_lines_are_ordered_by_a_column_either_way():
    """The largest first, the smallest first, and what is not known last both ways."""
    look = seen(
        run_row("slow", process_row(p50_ns=90 * MS)),
        run_row("unknown", process_row(p50_ns=Missing("no step"))),
        run_row("fast", process_row(p50_ns=10 * MS)),
    )

    assert names(shown_lines(look, by="p50")) == ["slow", "fast", "unknown"]
    assert names(shown_lines(look, by="p50", round_=True)) == ["fast", "slow", "unknown"]


@pytest.mark.parametrize("column", [column.name for column in COLUMNS])
def test_every_column_orders_lines_of_which_nothing_is_known(column):
    """No order fails on a run of which there is a directory and nothing in it."""
    empty = run_row("empty", command=NOT_MEASURED, started_unix_ns=NOT_MEASURED, user=NOT_MEASURED)
    look = seen(empty, run_row("bare"), replace(run_row("none"), processes=()))

    assert len(shown_lines(look, by=column)) == 3


def test_processes_stand_below_their_run():
    """A run with several processes has a line of its own, and theirs below it."""
    look = seen(run_row("dist", *ranks(3)))

    assert names(shown_lines(look)) == ["dist", 100, 101, 102]


def test_a_run_of_many_processes_starts_folded():
    """64 processes do not push all other runs off the page."""
    look = seen(run_row("pool", *ranks(64)), run_row("other"))

    assert names(shown_lines(look)) == ["pool", "other"]
    assert len(shown_lines(look, turned=["/runs/pool"])) == 66


def test_an_ended_run_starts_folded():
    """Nobody watches the processes of a run that is over."""
    look = seen(run_row("over", *ranks(3, state="finished"), state="finished"))

    assert names(shown_lines(look)) == ["over"]


def test_live_only_hides_what_has_ended():
    """`a` leaves what runs or is stopped."""
    look = seen(run_row("over", process_row(state="killed"), state="killed"), run_row("live"))

    assert names(shown_lines(look, live_only=True)) == ["live"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("TRAIN", ["a", "b"]),
        ("name b", ["b"]),
        ("grace", ["a"]),
        ("node9", ["b"]),
        ("killed", ["b"]),
        ("4712", ["b"]),
        ("nobody", []),
    ],
)
def test_the_filter_looks_at_command_host_user_state_and_pid(wanted, found):
    """All words have to be there, in any case, in any order."""
    look = seen(
        run_row("a", user="grace"),
        run_row("b", process_row(pid=4712, host="node9", state="killed"), state="killed"),
    )

    assert names(shown_lines(look, wanted=wanted)) == found


def test_the_filter_shows_the_processes_that_match():
    """`worker 2` shows that rank below its run."""
    look = seen(run_row("dist", *ranks(3)))

    assert names(shown_lines(look, wanted="worker 2")) == ["dist", 102]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("/usr/bin/python3.11", "-u", "/home/ada/train.py", "--lr", "0.1"), "train.py --lr 0.1"),
        (("python", "-m", "official.main", "a b"), "official.main 'a b'"),
        (("python", "-c", "print(1)"), "python -c 'print(1)'"),
        (("./launch.sh", "4"), "launch.sh 4"),
        (("python",), "python"),
        ((), "r1"),
        (Missing("run.json is half written"), "r1"),
    ],
)
def test_a_run_is_called_by_its_script(command, told):
    """The interpreter before it would take the room of what tells runs apart."""
    assert command_text(run_row(command=command)) == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "● running"),
        ({"state": "stopped"}, "‖ stopped"),
        ({"state": "finished"}, "✓ finished"),
        ({"state": "killed"}, "✗ killed"),
        ({"state": "unknown"}, "? unknown"),
        ({"since_last_step_ns": 45 * S}, "◌ no step 45s"),
        ({"since_last_step_ns": 3 * 3600 * S}, "◌ no step 3h"),
        ({"since_last_step_ns": 45 * S, "p95_ns": 30 * S}, "● running"),
        ({"since_last_step_ns": 45 * S, "state": "finished"}, "✓ finished"),
        ({"steps": 0, "since_last_step_ns": Missing("no step")}, "◌ starting 1m"),
    ],
)
def test_a_process_stands_in_a_word(changes, told):
    """Running, and whether its steps have ceased to come for longer than they explain."""
    row = process_row(**changes)

    assert standing(run_row("r", row), row, UNIX_NS + 60 * S).text(20) == told


def test_the_row_of_a_run_sums_what_its_processes_use():
    """CPUs, memory, steps and samples are sums; the pace is the middle one's."""
    rows = ranks(3, cpus_used=1.5, resident_bytes=2**30)
    rows[1] = process_row(pid=101, rank=1, cpus_used=1.5, resident_bytes=2**30, p50_ns=50 * MS)
    (line, *_) = shown_lines(seen(run_row("dist", *rows)))

    assert [text(line, name) for name in ("cpus", "memory", "steps", "samples", "p50")] == [
        "4.50", "3.00 GiB", "900", "21", "35.0 ms",
    ]  # fmt: skip


@pytest.mark.parametrize(("left", "told"), [(0, "7"), (3, "7+3"), (NOT_SEEN, "7+?")])
def test_samples_that_are_to_come_are_told(left, told):
    """A person who asked for samples sees that they are awaited."""
    (line,) = shown_lines(seen(run_row("r", process_row(samples_left=left))))

    assert text(line, "samples") == told


@pytest.mark.parametrize(
    ("rate", "told"),
    [(0, "0"), (0.001, "<0.01"), (0.25, "0.25"), (28.31, "28.3"), (1234.4, "1,234"),
     (12_345, "12.3k"), (99_960, "100k"), (123_456, "123k")],
)  # fmt: skip
def test_a_rate_takes_at_most_six_cells(rate, told):
    """From one step in minutes to a toy's hundred thousand a second."""
    assert cells.per_second(rate) == told


@pytest.mark.parametrize("width", [8, 13, 16])
def test_a_bar_of_shares_fills_its_width(width):
    """Parts are rounded so that they add up to the cell."""
    bar = cells.shares_bar(shares(before_ratio=0.333, on_ratio=0.333, after_ratio=0.334), width)

    assert sum(cell_len(part) for part, _ in bar) == width


def test_parts_of_a_bar_differ_without_colour():
    """Each part has a texture of its own."""
    bar = cells.shares_bar(shares(**dict.fromkeys(_RATIOS, 0.25)), 8)

    assert "".join(part for part, _ in bar) == "░░██▒▒··"


def test_steady_steps_draw_a_level_trend():
    """Noise of a few percent does not look like trouble, twice the usual time does."""
    ((bars, _),) = cells.trend([100, 104, 97, 200, 100], 8)

    assert bars == "▅▅▄█▅"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 240])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_line_is_as_wide_as_the_page_at_most(width, name):
    """Whatever a command, host or user is called, columns stay where they are."""
    row = process_row(host=name, state="running")
    run = run_row("r", row, command=(name or "x", name), user=name, host=name)
    found = shown_lines(seen(run, run_row("dist", *ranks(2, host=name))))
    fitted = fit(found, width)

    for line in found:
        parts = ["".join(text for text, _ in shown(each.column.cell(line, each.width), each))
                 for each in fitted]  # fmt: skip
        assert [cell_len(part) for part in parts] == [each.width for each in fitted]
        assert sum(each.width + GAP for each in fitted) - GAP <= width
        assert "".join(parts).isprintable() or "\u0301" in name


def test_columns_that_matter_less_go_first():
    """On a narrow page name, state and pace stay."""
    found = shown_lines(seen(run_row()))
    columns = {width: {each.column.name for each in fit(found, width)} for width in (40, 80, 100)}

    assert columns[40] == {"name", "state", "steps/s"}
    assert columns[80] >= columns[40] | {"p50", "p95", "trend", "where"}
    assert columns[100] >= columns[80] | {"cpus", "memory"}


def test_columns_that_no_run_fills_are_not_shown():
    """Where there is no GPU its column's room is another's."""
    without = shown_lines(seen(run_row()))
    with_one = shown_lines(seen(run_row("r", process_row(gpu_ratio=0.87))))

    assert "gpu" not in {each.column.name for each in fit(without, 200)}
    assert "gpu" in {each.column.name for each in fit(with_one, 200)}


def test_problems_do_not_keep_a_run_from_being_shown():
    """A half-written run has a line with what is known."""
    broken = (Problem("run.json", "half written"),)
    run = run_row("half", state="unknown", command=NOT_MEASURED, problems=broken)
    (line,) = shown_lines(seen(replace(run, processes=())))

    assert (text(line, "name"), text(line, "state"), text(line, "steps/s")) == (
        "  half", "? unknown", "–",
    )  # fmt: skip


def test_goodput_has_a_column_where_anybody_knows_it():
    """Missing it leaves its room to others; what is not known yet is a dash."""
    known, unknown = run_row("r1"), run_row("r2", process_row(goodput_ratio=NOT_MEASURED))
    column = BY_NAME["goodput"]

    assert "goodput" in {each.column.name for each in fit(shown_lines(seen(known, unknown)), 140)}
    assert "goodput" not in {each.column.name for each in fit(shown_lines(seen(unknown)), 140)}
    assert "goodput" not in {each.column.name for each in fit(shown_lines(seen(known)), 80)}
    cells_of = {line.run.id: line for line in shown_lines(seen(known, unknown))}
    assert column.cell(cells_of["r1"], 7) == (("52 %", ""),)
    assert column.cell(cells_of["r2"], 7) == cells.NOTHING
