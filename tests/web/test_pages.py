"""Every page opens on every kind of run, in all colours and widths, for everybody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.golden import GOLDEN
from tests.support.trials import TRIAL_ID
from tests.web.recordings import HOSTILE, HOSTILE_TRIAL, MADE_UP, RECORDED

RUNS = (*MADE_UP, *(RECORDED if GOLDEN.is_dir() else ()))
TRIAL_OF = {"training": TRIAL_ID, "hostile": HOSTILE_TRIAL}
WINDOWS = [("light", 1440), ("dark", 1440), ("light", 1024), ("dark", 1024), ("light", 800)]
# What a person has to walk through from page to page; more would mean a trap.
MOST_STOPS = 400

_OVERFLOW = """() => {
  const wide = document.documentElement.scrollWidth > innerWidth;
  if (!wide) return [];
  return [...document.querySelectorAll("main *")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5).map((each) => `${each.tagName}.${each.className} in ${location.hash}`)
    .concat(["wider than the window"]);
}"""
_CUT_TABLES = """() => [...document.querySelectorAll("main .table-place")]
  .filter((place) => place.clientWidth && place.scrollWidth > place.clientWidth + 1)
  .map((place) => {
    const name = place.closest(".table").querySelector("h3").textContent;
    return `${name} in ${location.hash}: ${place.scrollWidth} of ${place.clientWidth} pixels`;
  })"""
# Beyond the last stop the focus would be the browser's own, which takes all further keys.
_END = """() => {
  const end = document.querySelector("#end") ?? document.createElement("button");
  end.id = "end";
  document.body.append(end);
}"""
_FOCUSED = """() => {
  const at = document.activeElement;
  if (!at || at === document.body || at.id === "end") return null;
  const style = getComputedStyle(at);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  // In a drawing the frame of the thing is its ring.
  const drawn = at instanceof SVGElement && [...at.querySelectorAll("rect")]
    .some((each) => parseFloat(getComputedStyle(each).strokeWidth) >= 2);
  const box = at.getBoundingClientRect();
  return {
    what: `${at.tagName}.${at.className} ${(at.ariaLabel ?? at.textContent).slice(0, 40)}`,
    seen: (ring || drawn || style.boxShadow !== "none") && box.width > 0 && box.bottom > 0,
    inMain: Boolean(at.closest("main")), inPages: Boolean(at.closest("nav.pages")),
  };
}"""


@pytest.mark.parametrize("run", RUNS)
def test_every_page_opens(visitor, run) -> None:
    """On each kind of run, without an error, within the window, and never as somebody's HTML."""
    wide = []

    for name in visitor.pages(run):
        page = visitor.show(run, name)
        wide += page.evaluate(_OVERFLOW)

    assert wide == []
    assert page.evaluate("() => window.hacked") is None
    assert visitor.page.locator("main script, main img[src=x]").count() == 0


def test_every_page_opens_of_real_jobs(visitor, runs) -> None:
    """Those that were recorded here, if there are any."""
    found = (path.parent.name for path in runs.glob("*/run.json"))
    real = [name for name in found if name not in RUNS]

    for run in real:
        for name in visitor.pages(run):
            visitor.show(run, name)


@pytest.mark.parametrize(("colours", "width"), WINDOWS)
def test_pages_fit_their_window(visit, colours, width) -> None:
    """From 1024 pixels up nothing is cut or moved out of sight; 800 are not broken either."""
    visitor = visit(viewport={"width": width, "height": 900}, color_scheme=colours)
    wide = []

    for run in ("training", "ranks"):
        for name in visitor.pages(run):
            page = visitor.show(run, name)
            wide += page.evaluate(_OVERFLOW)
            _keep_screenshot(page, f"{run}-{name}-{colours}-{width}")

    assert wide == []


@pytest.mark.parametrize("run", RUNS)
def test_no_table_cuts_its_last_column(visit, run) -> None:
    """At 1280 pixels, the width of a small laptop: names give way to numbers."""
    visitor = visit(viewport={"width": 1280, "height": 900}, color_scheme="light")
    cut = []

    for name in visitor.pages(run):
        cut += visitor.show(run, name).evaluate(_CUT_TABLES)

    assert cut == [], "\n".join(cut)


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("run", ["training", "hostile"])
def test_everybody_can_use_every_page(visit, run, colours) -> None:
    """axe-core finds nothing serious: labels, roles, contrast, what a keyboard reaches."""
    from axe_playwright_python.sync_playwright import Axe

    visitor = visit(viewport={"width": 1280, "height": 900}, color_scheme=colours)
    found = []

    shown = [("", {}), *((name, {}) for name in visitor.pages(run))]
    for name, arguments in [*shown, ("trials", {"trial": TRIAL_OF[run]})]:
        if name:
            visitor.show(run, name, arguments)
        violations = Axe().run(visitor.page).response["violations"]
        found += [
            (name, each["id"], node["target"], node["html"][:200])
            for each in violations
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]

    assert found == []


@pytest.mark.parametrize("name", ["ops", "steps", "code"])
def test_an_address_that_says_nonsense_gets_a_sentence(visitor, name) -> None:
    """In the place of the page, which the next address brings back."""
    visitor.expected.append(r"/api/run/training/.*work=99")
    page = visitor.show("training", name)

    page.evaluate("(to) => { location.hash = to; }", f"#/run/training/{name}?work=99")
    page.locator("main .trouble:visible").first.wait_for()
    page.evaluate("(to) => { location.hash = to; }", f"#/run/training/{name}?work=0")

    page.locator(f"main > .page-{name}").wait_for()
    page.locator("main .trouble:visible").wait_for(state="detached")


def test_a_keyboard_reaches_everything_and_shows_where_it_is(visitor) -> None:
    """Tab goes through each page and out of it again; what has the focus is seen."""
    for name in visitor.pages("training"):
        page = visitor.show("training", name)
        page.evaluate(_END)
        page.focus(".skip")
        stops = [page.evaluate(_FOCUSED)]
        for _ in range(MOST_STOPS):
            page.keyboard.press("Tab")
            focused = page.evaluate(_FOCUSED)
            if focused is None:
                break
            stops.append(focused)

        assert [each["what"] for each in stops if not each["seen"]] == []
        assert len(stops) < MOST_STOPS
        assert any(each["inPages"] for each in stops), stops


def test_the_way_past_the_navigation(visitor) -> None:
    """The first stop of the keyboard leads to the page itself."""
    page = visitor.show("training", "overview")

    first = page.evaluate("() => document.querySelector('a, button, input, select').className")
    page.focus(".skip")
    page.keyboard.press("Enter")

    page.wait_for_function("() => document.activeElement.id === 'page'")
    assert first == "skip"


def test_keys_walk_from_page_to_page(visitor) -> None:
    """] and [ go on and back, ? shows the keys, Escape closes them."""
    names = visitor.pages("training")
    page = visitor.show("training", names[0])

    page.keyboard.press("]")
    visitor.settle(names[1 % len(names)])
    page.keyboard.press("[")
    visitor.settle(names[0])
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    keys.wait_for()
    page.keyboard.press("Escape")

    keys.wait_for(state="hidden")


def test_a_letter_leads_to_a_page_only_after_g(visitor) -> None:
    """And no key is taken away from a page that is young."""
    names = visitor.pages("training")
    page = visitor.show("training", names[-1])
    page.evaluate(
        "() => { const young = new KeyboardEvent('keydown', { key: 'o', cancelable: true });"
        "  Object.defineProperty(young, 'timeStamp', { value: 100 });"
        "  dispatchEvent(young); window.taken = young.defaultPrevented; }"
    )

    page.keyboard.press("g")
    page.keyboard.press("o")

    visitor.settle("overview")
    assert page.evaluate("() => taken") is False


def test_the_choice_of_colours_is_kept(visitor) -> None:
    """Dark stays dark when the page is opened again."""
    page = visitor.show("training", "overview")

    page.get_by_role("button", name="Show in dark colours").click()
    page.reload()
    visitor.settle("overview")

    assert page.evaluate("() => getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_the_header_tells_the_command_as_it_is(visitor) -> None:
    """Whatever it is made of."""
    page = visitor.show("hostile", "overview")

    page.wait_for_selector("header .command")
    assert HOSTILE[0] in page.locator("header .command").inner_text()


def _keep_screenshot(page, name: str) -> None:
    """Where TFPROBE_SCREENSHOTS names a folder, for people to look at."""
    folder = os.environ.get("TFPROBE_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
