"""The page of `tfprobe input` answers first, draws the pipeline as a tree, and fits."""

from __future__ import annotations

import pytest

from tests.support.profiles import Span, Step, loop, op, process, profile
from tfprobe.analysis.input.input_verdict import judge
from tfprobe.profile.capture_tables import SpanKind
from tfprobe.report.text.input import render_input

ROOT = "Iterator::Root"


def page(wait_us: int, width: int = 100) -> str:
    rows = [op("IteratorGetNext", 0, wait_us), op("MatMul", wait_us, 1000)]
    rows.append(op("DecodePng", 0, 70, detail=f"{ROOT}::Zip::Map", background=True))
    names = ("", "::Zip", "::Zip[0]::Map", "::Zip[0]::Map::TFRecord", "::Zip[1]::Range")
    spans = [
        Span(SpanKind.ITERATOR, ROOT + name, depth, wait_us - 2 * depth, "a", "parallelism:2")
        for depth, name in enumerate(names)
    ]
    steps = [Step(rows, wait_us + 1000, spans=spans)]
    loops = judge(profile(steps, loops=[loop(kind="fit", name="model" * 20)]))
    return render_input(loops, [process()], width=width, colour=False)


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    """Nothing wraps by accident, and numbers stay whole."""
    text = page(5000, width)

    assert max(map(len, text.splitlines())) <= width
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert "5.00 ms" in text


def test_the_bottleneck_is_marked_in_the_tree() -> None:
    """Branches of a Zip are drawn as such."""
    lines = page(5000).splitlines()

    assert any(line.startswith("  └ Zip") for line in lines)
    assert any("├ " in line and "Map" in line for line in lines)
    assert sum("▶" in line for line in lines) == 1
    assert any("DecodePng" in line for line in lines)


def test_a_work_that_does_not_wait_has_no_bottleneck() -> None:
    """Nobody is blamed, nothing is to be done."""
    text = page(10)

    assert "it does not wait for input" in text
    assert "▶" not in text
    assert "→" not in text


def test_a_work_among_several_processes_has_the_name_of_its_process() -> None:
    """As in the other views: by rank, else by pid."""
    steps = [Step([op("IteratorGetNext", 0, 5000)], 6000)]
    processes = [process(rank=3), process(rank=None, pid=77)]
    loops = judge(profile(steps, loops=[loop(kind="fit", name="m")], processes=processes))

    by_rank = render_input(loops, processes, width=100, colour=False)
    by_pid = render_input(loops, processes[::-1], width=100, colour=False)

    assert by_rank.startswith("fit m, rank 3: ")
    assert by_pid.startswith("fit m, pid 77: ")
