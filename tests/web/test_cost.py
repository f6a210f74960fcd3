"""The pages of what costs: what one does to them stands in their address."""

from __future__ import annotations

import pytest

RUN = "training"


def args(page) -> str:
    return page.evaluate("() => location.hash.split('?')[1] ?? ''")


def test_ops_are_searched_and_sorted_in_the_address(visitor) -> None:
    """Whoever is sent it sees the same rows in the same order."""
    page = visitor.show(RUN, "ops", {"by": "name"})

    page.get_by_role("searchbox").fill("conv")
    page.get_by_role("button", name="Type").click()
    names = page.locator("main tbody tr td:first-child bdi").all_text_contents()
    page.reload()
    visitor.settle("ops")

    assert "find=conv" in args(page)
    assert "sort=type" in args(page)
    assert names == ["conv/Conv2D", "conv/Relu"]
    assert page.locator("main tbody tr td:first-child bdi").all_text_contents() == names


def test_a_type_leads_to_its_nodes_and_they_to_the_graph(visitor) -> None:
    """Click by click."""
    page = visitor.show(RUN, "ops")

    page.get_by_role("link", name="MatMul").click()
    page.get_by_role("link", name="dense/MatMul", exact=True).click()
    visitor.settle("graph")
    page.wait_for_selector(".details .facts")

    assert page.locator(".details h2").text_content() == "MatMul"
    assert page.locator(".details .facts").text_content().startswith("op")


@pytest.mark.parametrize("view", ["map", "devices"])
def test_views_of_ops_stay_when_loaded_again(visitor, view) -> None:
    """The tab is part of the address."""
    page = visitor.show(RUN, "ops", {"view": view})

    page.reload()
    visitor.settle("ops")

    assert page.locator('[role="tab"][aria-selected="true"]').get_attribute("data-value") == view


def test_a_scope_is_zoomed_to_and_left(visitor) -> None:
    """By the drawing, the table, the way above it and the browser's own way back."""
    page = visitor.show(RUN, "scopes")

    page.locator("svg g.frame", has_text="dense").first.click()
    page.wait_for_selector(".crumbs li:nth-child(2)")
    zoomed = args(page)
    page.reload()
    visitor.settle("scopes")
    rows = page.locator("main tbody tr td:first-child").all_text_contents()
    page.locator(".crumbs a").first.click()
    page.wait_for_function("() => document.querySelectorAll('.crumbs li').length === 1")

    assert zoomed == "at=dense"
    assert rows == ["MatMul", "BiasAdd"]
    assert args(page) == ""


def test_keys_zoom_into_scopes(visitor) -> None:
    """Without a pointer."""
    page = visitor.show(RUN, "scopes")

    page.locator(".flame").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".crumbs li:nth-child(2)")

    assert args(page).startswith("at=")


def test_code_tells_lines_and_why_there_is_no_source(visitor) -> None:
    """The file was on another machine; its lines have their costs."""
    page = visitor.show(RUN, "code", {"view": "lines"})

    page.get_by_role("link", name="/home/ada/train.py:10").click()
    page.wait_for_selector(".source")

    assert "cannot be shown: it is not on this machine" in page.locator(".source").text_content()
    assert page.locator(".source tbody tr").count() == 1
    assert page.locator(".source tr[data-chosen]").count() == 1


def test_the_graph_is_walked_by_keys(visitor) -> None:
    """Arrows choose, Enter goes in, Backspace comes back to where one was."""
    page = visitor.show(RUN, "graph")

    page.locator("svg .node").first.focus()
    first = page.locator(".details h2").text_content()
    page.keyboard.press("Enter")
    page.wait_for_selector(".crumbs li:nth-child(2)")
    inside = args(page)
    page.locator("svg .node").first.focus()
    page.keyboard.press("Backspace")
    page.wait_for_function("() => document.querySelectorAll('.crumbs li').length === 1")

    assert inside == f"at={first}"
    assert page.locator(".details h2").text_content() == first


def test_names_of_ops_stay_text_in_all_drawings(visitor) -> None:
    """Whatever they are made to look like."""
    for page_name in ("ops", "scopes", "code", "graph"):
        page = visitor.show("hostile", page_name, {"by": "name"} if page_name == "ops" else {})
        assert page.evaluate("() => window.hacked") is None
        assert page.locator("main :is(script, img[src=x], iframe, object)").count() == 0


def test_the_scope_of_an_op_leads_to_it_in_the_graph(visitor) -> None:
    """It is chosen in the scope that it is in; there is nothing in an op to enter."""
    page = visitor.show("training", "scopes", {"at": "dense/MatMul"})

    page.get_by_role("link", name="Its graph").click()
    visitor.settle("graph")

    assert page.url.endswith("graph?at=dense&pick=dense%2FMatMul")
