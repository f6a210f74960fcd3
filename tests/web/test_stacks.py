"""The page of stacks: a flame graph that says how many samples it stands on."""

from __future__ import annotations


def test_stacks_are_drawn_and_their_choice_stays(visitor) -> None:
    """The thread that is chosen and the shape are in the address."""
    page = visitor.show("training", "stacks", {"part": "thread:MainThread (77)"})
    page.locator("svg g.frame", has_text="fit trainer.py:397").first.wait_for(state="attached")

    page.get_by_role("tab", name="Flame graph").click()
    page.reload()
    visitor.settle("stacks")

    said = page.locator("main").inner_text()
    assert "about 19 of 19 samples" in said
    assert "20 a second over 1 s; 1 samples failed" in said.replace("1.00 s", "1 s")
    assert page.get_by_role("tab", name="Flame graph").get_attribute("aria-selected") == "true"


def test_a_run_without_stacks_says_how_they_are_had(visitor) -> None:
    """Instead of an empty drawing."""
    page = visitor.show("ranks", "stacks")

    assert "tfprobe run --stacks" in page.locator("main").inner_text()
    assert page.locator("svg g.frame").count() == 0
