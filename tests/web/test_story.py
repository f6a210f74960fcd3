"""The pages that tell the story: their links land, and what one picks stands in the address."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.web.visiting import PATIENCE_MS

expect.set_options(timeout=PATIENCE_MS)


def test_the_overview_answers_first(visitor) -> None:
    """One sentence on where a step goes, and what to change; then steps, tiers, processes."""
    page = visitor.show("training", "overview")

    expect(page.locator(".overview-answer .answer")).to_contain_text("of the time it")
    headings = page.locator("main .card > h2").all_inner_texts()
    assert headings[:4] == [
        "Where the time went",
        "Where a step goes",
        "What to change",
        "Step time over time",
    ]
    assert "were productive steps" in page.inner_text(".overview-account .answer")
    assert visitor.unexpected() == []


def test_a_run_without_samples_says_what_is_missing(visitor) -> None:
    """Steps are there; where they go is not known, and why."""
    page = visitor.show("unsampled", "overview")

    expect(page.locator(".overview-answer")).to_contain_text("Not known: no step was traced.")
    expect(page.locator(".overview-steps canvas").first).to_be_visible()


def test_what_was_compiled_and_where_graphs_broke_is_on_the_page_of_steps(visitor) -> None:
    """With reasons and lines; a step opens, and what came before all steps does not."""
    page = visitor.show("compiling", "steps")

    compilations = page.locator("main section.table", has_text="Compilations")
    expect(compilations.locator("tbody tr")).to_have_count(3)
    expect(compilations).to_contain_text("x, size at index 0: 4 → 5")
    breaks = page.locator("main section.table", has_text="Graph breaks")
    expect(breaks.locator("tbody tr")).to_have_count(2)
    first, second = breaks.locator("tbody tr").all()
    expect(first).to_contain_text("ends a graph")
    expect(first).to_contain_text("model.py:31")
    expect(first.get_by_role("button")).to_have_count(0)
    expect(second).to_contain_text("runs uncompiled")
    second.get_by_role("button").click()
    expect(page.locator(".step-picker input")).to_have_value("6")


def test_links_of_findings_land_on_their_evidence(visitor) -> None:
    """A step that is named opens the page of steps with that step picked."""
    page = visitor.show("training", "findings")

    link = page.locator(".evidence a[href*='/steps?'][href*='step=']").first
    step = (link.get_attribute("href") or "").split("step=")[1].split("&")[0]
    link.click()

    visitor.settle("steps")
    expect(page.locator(".step-picker input")).to_have_value(step)
    expect(page.locator(".step-body .figure dd").first).to_contain_text(f"{int(step):,}")


def test_links_of_evidence_are_those_of_pages(visitor) -> None:
    """Whatever the evidence is, there is a page for it that opens."""
    page = visitor.show("training", "findings")
    addresses = page.locator(".evidence a").evaluate_all(
        "(links) => [...new Set(links.map((each) => each.getAttribute('href')))]"
    )
    known = set(visitor.pages("training"))

    assert addresses
    for address in addresses:
        name = address.split("?")[0].rsplit("/", 1)[1]
        assert name in known
        page.evaluate("(to) => { location.hash = to; }", address)
        visitor.settle(name)
        expect(page.locator(f"main > .page-{name}")).to_be_visible()


def test_an_address_brings_its_finding_into_sight(visitor) -> None:
    """The finding that is named has the focus."""
    page = visitor.show("training", "findings")
    rules = page.locator(".finding").evaluate_all("(all) => all.map((each) => each.dataset.rule)")

    page = visitor.show("training", "findings", {"finding": rules[-1]})

    assert page.evaluate("() => document.activeElement.dataset.rule") == rules[-1]


def test_picking_a_step_changes_the_address(visitor) -> None:
    """By its number, by arrows, by a row; who gets the address sees the same step."""
    page = visitor.show("training", "steps")

    page.fill(".step-picker input", "50")
    page.press(".step-picker input", "Enter")
    _is_picked(page, 50)
    expect(page.locator(".step-body")).to_contain_text("traced by tfprobe")
    page.get_by_role("button", name="The next step").click()
    _is_picked(page, 51)
    page.keyboard.press("ArrowLeft")
    _is_picked(page, 50)
    page.locator(".table button.open").first.click()
    expect(page.locator(".step-body")).to_contain_text("more than usual")


def test_a_step_that_was_traced_leads_to_its_timeline(visitor) -> None:
    """What it was spent on, beside the mean; and the recording itself."""
    page = visitor.show("training", "steps", {"step": "50"})

    expect(page.locator(".step-body .stack-bar")).to_have_count(2)
    expect(page.get_by_role("link", name="Its timeline")).to_have_attribute(
        "href", "#/run/training/timeline?capture=1"
    )


def test_names_that_nobody_should_trust_are_text(visitor) -> None:
    """In titles, in evidence, in the choice of a work: nothing of them is an element."""
    for name in ("overview", "findings", "steps"):
        page = visitor.show("hostile", name)

        assert page.evaluate("() => window.hacked") is None
        assert page.locator("main script, main img").count() == 0
    assert visitor.unexpected() == []


def test_two_runs_are_compared(visitor) -> None:
    """The other run is chosen from the list, and stands in the address."""
    page = visitor.show("training", "compare")

    page.get_by_label("with").select_option("unsampled")
    page.wait_for_function("() => location.hash.includes('with=unsampled')")
    visitor.settle("compare")

    expect(page.locator(".page-compare")).to_contain_text("median step")
    assert visitor.unexpected() == []


def _is_picked(page: Page, step: int) -> None:
    page.wait_for_function(
        "(step) => new URLSearchParams(location.hash.split('?')[1]).get('step') === step",
        arg=str(step),
    )
    expect(page.locator(".step-body .figure dd").first).to_contain_text(str(step))


def test_back_leads_to_where_one_was(visitor) -> None:
    """Who follows a link at the end of a page, and comes back, or reloads, is there again."""
    page = visitor.show("training", "overview")
    page.set_viewport_size({"width": 1024, "height": 500})
    link = page.get_by_role("link", name="Conv2D").first
    link.scroll_into_view_if_needed()
    page.wait_for_function("() => scrollY > 100")
    before = page.evaluate("() => scrollY")
    link.click()
    visitor.settle("ops")
    assert page.evaluate("() => scrollY") == 0

    page.go_back()

    page.wait_for_function("(top) => scrollY === top", arg=before)
    page.reload()
    page.wait_for_function("(top) => scrollY === top", arg=before)
