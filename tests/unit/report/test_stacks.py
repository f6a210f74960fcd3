"""Stacks as text: trees without calls that only pass on, and one sentence for the report."""

from __future__ import annotations

from dataclasses import replace

from tests.support.profiles import process, profile
from tests.support.stacks import sampled
from tfprobe.analysis.system.stack_lines import StackSummary, stack_summaries
from tfprobe.analysis.system.stack_samples import process_trees
from tfprobe.profile.profile import Profile
from tfprobe.report.text.stacks import render_stacks, sentence

NO_STACKS = StackSummary("node7 pid 1", 0, 0, 0, 0, 0, 0, (), ("py-spy: Permission denied",))


def made(*reads: tuple[float, str], samples: int = 1204) -> Profile:
    stacks = sampled(reads, end_ms=61_000, samples=samples)
    return replace(profile(loops=[], processes=[process()]), stacks=(stacks,))


def test_the_report_says_samples_rate_and_the_hottest_lines() -> None:
    """In one sentence."""
    told = made((0, "main fit execute"), (48_800, "main load"))

    assert sentence(stack_summaries(told)) == (
        "stacks: 1,204 samples of 61.0 s at 20 a second; hottest: "
        "80.0 % work/train.py:3 (in execute, tf/execute.py:53); 20.0 % work/train.py:9"
    )


def test_a_run_that_could_not_be_sampled_says_why() -> None:
    """One that was not asked to says nothing."""
    assert sentence([NO_STACKS]) == "stacks: none; py-spy: Permission denied"
    assert sentence([]) == ""


def test_installed_calls_that_only_pass_on_are_left_out() -> None:
    """The program's own lines stay, and so does what takes time itself."""
    told = made((0, "main fit execute"), (59_000, ""))

    page = render_stacks(
        process_trees(told), by_thread=True, least_ratio=0.03, width=100, colour=False
    )

    lines = [line.strip() for line in page.splitlines()]
    assert "1,204 samples of 61.0 s at 20 a second, 1 thread; 4 more failed" in page
    assert "96.7 %  <module>  work/train.py:3" in lines
    assert "96.7 %    execute  tf/execute.py:53" in lines
    assert "3.3 %  (no Python frame)" in lines
    assert "trainer.py" not in page
