"""The parts that pages share, by themselves: tables, charts, flame graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfprobe
from tests.support.number_cases import NUMBER_CASES
from tests.support.paths import SHORT_PATHS
from tests.web.recordings import HOSTILE

MANY = 10_000

PACKAGE = Path(tfprobe.__file__).parent

_MAKE = Path(__file__).with_name("parts.js").read_text(encoding="utf-8")
_TYPES = {".js": "text/javascript", ".json": "application/json"}


@pytest.fixture
def made(visitor):
    """Make a part in an empty page; returns the page."""

    def module(route) -> None:
        path = PACKAGE / route.request.url.partition("/tfprobe/")[2]
        route.fulfill(path=path, content_type=_TYPES[path.suffix])

    visitor.context.route("**/tfprobe/**", module)

    def make(part: str, many: int = MANY):
        visitor.page.evaluate(_MAKE, [part, list(HOSTILE), many])
        return visitor.page

    yield make
    assert visitor.page.evaluate("() => window.hacked") is None
    assert visitor.page.locator("#made script, #made img").count() == 0


def test_of_many_rows_those_in_sight_are_drawn(made) -> None:
    """Ten thousand ops scroll and search without ten thousand elements."""
    page = made("table")

    first = page.locator("#made tbody tr").count()
    page.locator(".table-place").evaluate("(place) => { place.scrollTop = place.scrollHeight; }")
    page.locator(f"#made tr[aria-rowindex='{MANY + 1}']").wait_for()
    last = page.locator("#made tbody tr").count()

    assert (first < 200, last < 200) == (True, True)
    assert page.locator("#made table").get_attribute("aria-rowcount") == str(MANY + 1)


def test_few_rows_are_all_there(made) -> None:
    """So that the browser's own search finds them."""
    page = made("table", 400)

    assert page.locator("#made tbody tr").count() == 400


def test_a_search_says_what_it_found(made) -> None:
    """In any case of letters, with how many there are."""
    page = made("table")

    page.get_by_label("Search Ops").fill("OP 77")

    assert page.locator("#made .count").inner_text() == "111 of 10,000"
    assert page.evaluate("() => told") == ["OP 77"]


def test_headings_sort_and_what_is_unknown_is_last(made) -> None:
    """By keyboard, up and down."""
    page = made("table", 20)
    heading = page.get_by_role("columnheader", name="Time")

    down = page.locator("#made tbody tr:last-child td:nth-child(2)").inner_text()
    heading.get_by_role("button").press("Enter")
    page.wait_for_function("() => told.length === 1")
    up = page.locator("#made tbody tr:last-child td:nth-child(2)").inner_text()

    assert ("not told" in down, "not told" in up) == (True, True)
    assert heading.get_attribute("aria-sort") == "ascending"
    assert page.evaluate("() => told") == ["total_ns"]


def test_a_table_downloads_as_csv(made) -> None:
    """Raw numbers with their unit; names that a spreadsheet would run are text."""
    page = made("table", 8)
    page.get_by_label("Search Ops").fill("HYPERLINK")

    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()

    text = download.value.path().read_text(encoding="utf-8")
    assert download.value.suggested_filename == "ops.csv"
    assert text.splitlines() == ["Op,Time (ns),Share (ratio)", f"'{HOSTILE[2]},2000,{1 / 3!r}"]


def test_csv_quotes_what_would_break_it(made) -> None:
    """Quotes are doubled, as RFC 4180 has it."""
    page = made("table", 8)
    page.get_by_label("Search Ops").fill("onerror")

    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()

    (_, row) = download.value.path().read_text(encoding="utf-8").splitlines()
    assert row.startswith('"""><img src=x onerror=""window.hacked = 1"">/Add",1000,')


def test_a_row_opens_by_its_name(made) -> None:
    """Its name is a button."""
    page = made("table", 20)

    page.get_by_role("button", name="op 10").press("Enter")
    page.wait_for_function("() => told.length === 1")

    assert page.evaluate("() => told") == ["op 10"]


def test_a_keyboard_walks_along_lines(made) -> None:
    """Arrows say the values, Enter opens, plus zooms, 0 shows all."""
    page = made("lines")
    chart = page.get_by_role("group", name="Step time")

    chart.press("ArrowRight")
    chart.press("ArrowRight")
    said = page.locator("#made [role=status]").inner_text()
    chart.press("Enter")
    chart.press("+")
    chart.press("0")

    assert said.startswith("step 1: <script>")
    assert "memory 1.00 KiB" in said
    assert page.evaluate("() => told.map((each) => typeof each)") == ["number", "object", "object"]
    assert page.evaluate("() => told.at(-1)") == [None, None]


def test_lines_are_a_table_too(made) -> None:
    """For who does not see them, or wants to copy them."""
    page = made("lines")

    page.get_by_text("As a table").click()

    page.locator("#made tbody tr").nth(49).wait_for()
    assert page.locator("#made tbody tr").count() == 50


def test_a_flame_graph_zooms_by_keyboard(made) -> None:
    """Arrows walk along the frames and say them, Enter zooms."""
    page = made("flame")
    graph = page.get_by_role("group", name="Scopes")

    graph.press("ArrowDown")
    graph.press("ArrowDown")
    said = page.locator("#made .chart-said").inner_text()
    graph.press("Enter")
    page.wait_for_function("() => told.length === 1")

    assert said == f"{HOSTILE[0]}: amount 60 ns, share 60.0 %"
    assert page.evaluate("() => told") == [HOSTILE[0]]


def test_a_flame_graph_marks_what_is_searched(made) -> None:
    """Plain text, whatever it would mean to a pattern, and its share."""
    page = made("flame")

    page.get_by_label("Mark in Scopes").fill("onerror")

    assert page.locator("#made .chart-tools [role=status]").inner_text() == "40.0 % marked"


def test_charts_show_names_as_text(made) -> None:
    """Canvases and bars of whatever names."""
    page = made("charts")

    assert page.locator("#made .chart-box:has(canvas)").count() == 3
    page.locator(".stack-bar button").hover()
    assert page.locator(".tip .tip-name").inner_text() == HOSTILE[1]


@pytest.mark.parametrize("part", ["lines", "flame", "charts"])
def test_charts_take_the_colours_of_the_moment(made, part) -> None:
    """A change between light and dark draws them again, without a complaint."""
    page = made(part)
    before = page.locator("#made").screenshot()

    page.get_by_role("button", name="Show in dark colours").click()

    assert page.locator("#made").screenshot() != before


def test_charts_end_with_their_page(made) -> None:
    """What is taken out of the document holds nothing back; what is put back is drawn anew."""
    page = made("lines")

    page.evaluate("() => { window.kept = document.querySelector('#made'); kept.remove(); }")
    page.wait_for_function("() => !kept.querySelector('canvas')")
    page.evaluate("() => document.querySelector('main').append(kept)")

    page.locator("#made canvas").wait_for()


def test_an_installed_file_is_shown_with_its_package(made) -> None:
    """As the terminal shows it."""
    page = made("table")

    shown = page.evaluate(
        "async ([module, paths]) => paths.map((await import(module)).shortPath)",
        ["/tfprobe/web/static/parts/answer.js", [path for path, _ in SHORT_PATHS]],
    )

    assert shown == [expected for _, expected in SHORT_PATHS]


def test_numbers_read_as_in_a_terminal(made) -> None:
    """The same rules, held by the same cases as tests/unit/report/test_numbers.py asks."""
    page = made("table", 1)
    cases = [[kind, *case] for kind, cases in NUMBER_CASES.items() for case in cases]

    read = page.evaluate("(cases) => formatted(cases)", [case[:2] for case in cases])

    assert list(zip(cases, read, strict=True)) == [(case, case[2]) for case in cases]


@pytest.mark.parametrize("nothing", ["null", "undefined", "NaN", "Infinity"])
def test_what_is_no_number_is_written_as_nothing(made, nothing) -> None:
    """Whatever a document lacks."""
    page = made("table", 1)
    kinds = sorted(set(NUMBER_CASES) - {"ordinal"})

    read = page.evaluate(f"(kinds) => formatted(kinds.map((kind) => [kind, {nothing}]))", kinds)

    assert read == ["–" for _ in kinds]
