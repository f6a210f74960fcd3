"""Ranks stand on one clock below each other, and it is seen who keeps whom waiting."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.support.rank_steps import write_rank_steps

RUN = "meeting-ranks"
CANVAS = ".timeline-canvas"


@pytest.fixture(scope="module", autouse=True)
def _run(runs: Any) -> None:
    """Ten ranks on three machines whose clocks differ; rank 2 is late, rank 5 left nothing."""
    if not (runs / RUN).exists():
        ahead = {1: 3_000_000_000, 2: -500_000}
        write_rank_steps(runs / RUN, 10, ahead_ns=ahead, lacking=(5,))


def _arguments(page: Any) -> dict[str, str]:
    query = page.evaluate("location.hash.split('?')[1] ?? ''")
    return {name: values[0] for name, values in parse_qs(query).items()}


def _wait_for_argument(page: Any, name: str) -> str:
    page.wait_for_function(
        "(name) => new URLSearchParams(location.hash.split('?')[1]).has(name)", arg=name
    )
    return _arguments(page)[name]


def test_one_step_of_all_ranks_is_chosen_in_the_timeline(visitor) -> None:
    """The address holds it; each rank has its tracks, and says how sure its times are."""
    page = visitor.show(RUN, "timeline")

    page.get_by_role("combobox", name="Show").select_option("ranks")
    page.wait_for_selector("text=ranks on one clock")

    assert _arguments(page)["show"] == "ranks"
    groups = page.locator(".timeline-group").all_text_contents()
    assert [each.split(",")[0] for each in groups] == [
        f"rank {number}" for number in (0, 1, 2, 3, 4, 6, 7, 8, 9)
    ]
    assert "±" in groups[4]


def test_a_collective_is_found_by_keys_with_who_came_when(visitor) -> None:
    """Enter chooses, arrows walk to the next track; the card names the last one to come."""
    page = visitor.show(RUN, "timeline", {"show": "ranks"})
    page.focus(CANVAS)

    page.keyboard.press("Enter")
    _wait_for_argument(page, "slice")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".timeline-details table")

    details = page.locator(".timeline-details").inner_text()
    assert "Last to arrive: " in details
    assert "rank 2" in details
    assert page.locator(".timeline-details tbody tr").count() == 9


def test_an_address_with_a_slice_shows_its_meeting(visitor) -> None:
    """Whoever gets it sees the same."""
    page = visitor.show(RUN, "timeline", {"show": "ranks"})
    page.focus(CANVAS)
    page.keyboard.press("Enter")
    _wait_for_argument(page, "slice")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector(".timeline-details table")
    arguments = _arguments(page)
    title = page.locator(".timeline-details h2").inner_text()

    visitor.show(RUN, "ops")
    page = visitor.show(RUN, "timeline", arguments)
    page.wait_for_selector(".timeline-details table")

    assert page.locator(".timeline-details h2").inner_text() == title


def test_who_waits_for_whom_is_told(visitor) -> None:
    """With who is missing, and how the clocks of the machines differ."""
    page = visitor.show(RUN, "ranks")

    assert "Of 10 ranks 1 is not in this run: 5." in page.locator("main .notice").inner_text()
    assert (
        "rank 2 (worker)" in page.locator("section.card:has(h2:text('Who is late'))").inner_text()
    )
    page.get_by_role("button", name="Kept others waiting").click()
    page.wait_for_function("() => location.hash.includes('sort=-caused_ns')")
    first = page.locator("section.table:has(h3:text('Rank by rank')) tbody tr").first
    assert first.locator("td").first.inner_text().startswith("rank 2 (worker)")
    clocks = page.locator("section.table:has(h3:text('Clocks of 3 machines')) tbody")
    assert "3.00 s" in clocks.inner_text()


def test_slowest_and_fastest_of_each_step_are_drawn(visitor) -> None:
    """On the page of the processes, of all steps."""
    page = visitor.show(RUN, "processes")

    assert page.locator("h3:text('Times of the slowest, median and fastest process')").count()
    assert "Slowest most often: rank 2" in page.locator("main").inner_text()


def test_pointing_at_a_collective_tells_who_waited(visitor) -> None:
    """And lets all but its peers stand back."""
    page = visitor.show(RUN, "timeline", {"show": "ranks"})
    box = page.locator(CANVAS).bounding_box()

    # The second row of the first rank, below its name; all collectives are in the middle.
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 22 + 18 + 5 + 8)
    page.get_by_text("last to arrive").wait_for()

    told = page.locator(".tip").inner_text()
    assert "rank 2" in told
    assert "waited" in told


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [800, 1440])
def test_these_pages_fit_and_everybody_can_use_them(visit, colours, width) -> None:
    """In both colours, from narrow to wide."""
    from axe_playwright_python.sync_playwright import Axe

    visitor = visit(viewport={"width": width, "height": 900}, color_scheme=colours)
    found = []
    for name, arguments in (("timeline", {"show": "ranks"}), ("ranks", {}), ("processes", {})):
        page = visitor.show(RUN, name, arguments)
        found += [
            (name, each["id"], node["target"])
            for each in Axe().run(page).response["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]
        wide = page.evaluate("document.documentElement.scrollWidth")
        found += [(name, "wide", wide)] if wide > width else []

    assert found == []
