"""The pages of the machine: memory, input, transfers, processes, each where it has much to show."""

from __future__ import annotations

import pytest

from tests.support.rank_runs import write_ranks

RUN = "cluster"


@pytest.fixture(scope="session", autouse=True)
def cluster(runs) -> None:
    """Ten ranks on two hosts with accelerators; two of the ranks were traced, one comes late."""
    if not (runs / RUN).exists():
        write_ranks(runs / RUN, 10, 400, sampled=6)


def args(page) -> str:
    return page.evaluate("() => location.hash.split('?')[1] ?? ''")


def texts(page, selector: str) -> list[str]:
    return page.locator(selector).all_text_contents()


def test_holders_are_counted_anew_and_the_address_says_by_what(visitor) -> None:
    """Whoever is sent it sees the same."""
    page = visitor.show(RUN, "memory")

    page.get_by_label("Count by").select_option("role")
    page.wait_for_function("() => location.hash.includes('by=role')")
    page.get_by_role("heading", name="At the peak, by role").wait_for()
    page.reload()
    visitor.settle("memory")

    rows = texts(page, "section.table:has(h3:text-is('At the peak, by role')) td:first-child")
    assert sorted(rows) == ["activations", "gradients", "held before the step"]


def test_the_map_of_holders_stays_when_loaded_again(visitor) -> None:
    """The tab is part of the address."""
    page = visitor.show(RUN, "memory")

    page.get_by_role("tab", name="Map").click()
    page.reload()
    visitor.settle("memory")

    assert "view=map" in args(page)
    assert page.get_by_role("group", name="What holds the peak").locator("canvas").count() == 1


def test_another_allocator_is_chosen_in_its_table(visitor) -> None:
    """Each of the two ranks has one."""
    page = visitor.show(RUN, "memory")
    table = page.locator("section.table:has(h3:text('Devices and allocators'))")

    table.get_by_role("link").nth(0).click()
    page.wait_for_function("() => location.hash.includes('at=0')")
    page.wait_for_selector("tr[data-chosen]")

    assert table.locator("tbody tr").nth(0).get_attribute("aria-current") == "true"


def test_the_tree_of_a_pipeline_is_walked_with_the_keyboard(visitor) -> None:
    """Down and up between stages, left closes one, right opens it."""
    page = visitor.show(RUN, "input")
    tree = page.get_by_role("treegrid")
    tree.locator("tbody tr").first.focus()

    page.keyboard.press("ArrowDown")
    at = page.evaluate("() => document.activeElement.querySelector('bdi').textContent")
    page.keyboard.press("ArrowLeft")
    closed = tree.locator("tbody tr:visible").count()
    page.keyboard.press("ArrowRight")
    opened = tree.locator("tbody tr:visible").count()

    assert at == "Prefetch"
    assert (closed, opened) == (2, 4)
    assert tree.locator("tbody tr").nth(1).get_attribute("aria-level") == "2"


def test_ranks_that_wait_are_told_beside_bytes_that_move(visitor) -> None:
    """Rank 0 comes last to each collective."""
    page = visitor.show(RUN, "transfers")

    ranks = page.locator("section.table:has(h3:text('Ranks in collectives')) tbody tr")
    first = ranks.nth(0).locator("td").all_text_contents()

    assert first[0].startswith("rank 0")
    assert first[-1] == "100.0 %"


def test_a_run_without_accelerator_says_so_in_one_place(visitor) -> None:
    """No table stands there empty."""
    page = visitor.show("ranks", "transfers")

    said = page.locator("main").inner_text()
    assert "no accelerator in this run" in said
    assert page.locator("main table").count() == 0


def test_a_process_leads_to_its_steps(visitor) -> None:
    """By its name in the table of all."""
    page = visitor.show(RUN, "processes")

    page.get_by_role("link", name="rank 3").first.click()
    visitor.settle("steps")

    assert "work=" in args(page)


def test_ranks_are_compared_by_the_time_before_steps_too(visitor) -> None:
    """What is compared stands in the address; the map is there as a table as well."""
    page = visitor.show(RUN, "processes")

    page.get_by_label("Compare").select_option("between")
    page.wait_for_function("() => location.hash.includes('measure=between')")
    page.get_by_text("the time before a step beyond the median").wait_for()
    chart = page.get_by_role("group", name="Processes side by side")
    chart.wait_for()

    assert chart.locator("canvas").count() > 0


def test_hardware_is_that_of_the_host_that_is_chosen(visitor) -> None:
    """Eight accelerators are on each."""
    page = visitor.show(RUN, "processes")

    page.get_by_label("Host").select_option("node1")
    page.wait_for_function("() => location.hash.includes('host=node1')")
    table = page.locator("section.table:has(h3:text('Accelerators, on average'))")
    page.wait_for_function(
        "() => document.querySelectorAll('main section.table:last-child tbody tr').length === 8"
    )

    assert all(
        each.startswith("node1") for each in table.locator("td:first-child").all_text_contents()
    )


def test_hostile_names_are_text(visitor) -> None:
    """In tables, in maps and in titles."""
    for name in ("memory", "input", "transfers", "processes"):
        page = visitor.show("hostile", name)
        assert page.evaluate("() => window.hacked") is None
        assert page.locator("main script, main img").count() == 0
