"""The file of `tfprobe report --html` shows every page from a disk, and asks nobody."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.golden import GOLDEN
from tests.web.recordings import MADE_UP, RECORDED
from tests.web.visiting import Visitor
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine
from tfprobe.web.html_export import page
from tfprobe.web.opened import OpenRun

RUNS = (*MADE_UP, *(RECORDED if GOLDEN.is_dir() else ()))
NOT_IN_IT = "This file does not contain that"
# It needs another run, which is not in the file either.
OF_TWO = {"compare"}


@pytest.fixture
def open_file(browser: Any, runs: Path, tmp_path: Path) -> Iterator[Callable[..., Visitor]]:
    """Write the pages of a run, and open them with the network off. Any: see `browser`."""
    opened: list[Visitor] = []

    def open_pages(run: str) -> Visitor:
        path = tmp_path / f"{run}.html"
        path.write_text(page(OpenRun(RunFolder(runs / run), this_machine())), encoding="utf-8")
        opened.append(
            Visitor(browser, path.as_uri(), offline=True, viewport={"width": 1440, "height": 900})
        )
        return opened[-1]

    yield open_pages
    complaints = [each for visitor in opened for each in visitor.unexpected()]
    for visitor in opened:
        visitor.close()
    assert complaints == []


@pytest.mark.parametrize("run", RUNS)
def test_every_page_opens_from_a_file(open_file, run) -> None:
    """With what it shows first, without a request, and without a word on the console."""
    visitor = open_file(run)
    lacking = []

    for name in visitor.pages(run):
        shown = visitor.show(run, name)
        if NOT_IN_IT in shown.inner_text("main") and name not in OF_TWO:
            lacking.append(name)

    assert lacking == []
    assert shown.evaluate("() => window.hacked") is None


def test_every_work_opens_from_a_file(open_file) -> None:
    """A work that was chosen stays chosen from page to page, and is in the file."""
    visitor = open_file("training")

    lacking = [
        (name, loop)
        for name in visitor.pages("training")
        for loop in ("0", "1")
        if NOT_IN_IT in visitor.show("training", name, {"work": loop}).inner_text("main")
        and name not in OF_TWO
    ]

    assert lacking == []


def test_links_that_name_the_work_lead_on_in_a_file(open_file) -> None:
    """What a file holds of the work that it shows first is there by its name, too."""
    visitor = open_file("training")

    def told(loop: str) -> str:
        asked = {"by": "name", "type": "MatMul", "work": loop}
        return str(visitor.show("training", "ops", asked).inner_text("main"))

    assert "dense/MatMul" in told("0")
    assert NOT_IN_IT in told("1")


def test_a_file_has_no_way_to_other_runs(open_file) -> None:
    """It holds one run; its head leads nowhere."""
    visitor = open_file("training")

    assert visitor.page.locator("header .home").evaluate("(each) => each.tagName") == "SPAN"
    assert visitor.page.title().startswith("Overview · training")


def test_what_a_file_does_not_hold_is_told_in_its_place(open_file) -> None:
    """An address of another run, or of what had no room, shows a sentence and no broken page."""
    visitor = open_file("training")

    visitor.page.evaluate("() => { location.hash = '#/run/other/overview'; }")
    visitor.page.wait_for_selector("main > .trouble")

    assert NOT_IN_IT in visitor.page.inner_text("main")


def test_links_lead_on_where_the_file_is_the_text_of_a_frame(open_file, browser, tmp_path) -> None:
    """As in a notebook: the browser would look for the next page at the notebook's address."""
    open_file("training")
    text = html.escape((tmp_path / "training.html").read_text(encoding="utf-8"))
    around = tmp_path / "notebook.html"
    around.write_text(f'<iframe sandbox="allow-scripts" srcdoc="{text}"></iframe>')
    notebook = browser.new_page()

    notebook.goto(around.as_uri())
    frame = notebook.frame_locator("iframe")
    frame.locator("nav a", has_text="Steps").click()
    frame.locator("main h1", has_text="Steps").wait_for()

    assert notebook.url == around.as_uri()
    notebook.close()


def test_a_trial_opens_from_a_file(open_file) -> None:
    """From the list of those of the same command, and what a finding says it measured."""
    visitor = open_file("ranks")
    page = visitor.show("ranks", "trials")

    page.locator("main .table tbody a").click()

    page.locator("main .outcome").first.wait_for()
    assert "+82.5 % [77, 88]" in page.inner_text("main .table tbody tr:first-child")
    findings = visitor.show("ranks", "findings").inner_text("main")
    assert "measured +82.5 % [77, 88] (steps_per_execution=16)" in findings
