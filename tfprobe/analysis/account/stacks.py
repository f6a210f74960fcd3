"""Say which lines of the program a time went to, by the stacks that were read from outside."""

from __future__ import annotations

from tfprobe.analysis.account.categories import Category
from tfprobe.analysis.account.facts import Facts
from tfprobe.analysis.account.ledger import Item, Ledger
from tfprobe.analysis.core.intervals import Intervals
from tfprobe.analysis.system.stack_lines import is_of_program, stacks_of
from tfprobe.analysis.system.stack_samples import main_thread, of_thread, samples_within
from tfprobe.errors import Missing
from tfprobe.profile.stack_samples import SampledFrame

# Fewer stacks tell nothing of the lines of a time.
_FEWEST = 5
_MOST_LINES = 12
_NO_STACKS = Missing("its stacks were not sampled (`tfprobe run --stacks`)")


def add_lines(
    facts: Facts, ledger: Ledger, category: Category, times: Intervals, ns: int, what: str = ""
) -> int:
    """Add a time by the lines of the program that stacks in some intervals tell; `what` is added.

    Return what is left of it in ns: all of it where no stacks were read.
    """
    found = lines_within(facts, times) if ns else _NO_STACKS
    if isinstance(found, Missing):
        return ns
    lines, samples = found
    left_ns = ns
    for function, source, ratio in lines[:_MOST_LINES]:
        name = f"{function}, {what}" if what else function
        item = Item(name, source, int(ratio * ns), samples)
        left_ns -= item.ns
        ledger.add(category, item)
    return left_ns


def lines_within(
    facts: Facts, intervals: Intervals
) -> tuple[tuple[tuple[str, str, float], ...], int] | Missing:
    """Return what the main thread did in these intervals, and how many stacks tell it.

    Each line has a function, "file:line", and its share of the time; shares sum to at most 1. The
    line is the innermost of the program itself, or of what it called where there is none.
    """
    stacks = next((s for s in facts.profile.stacks if s.process == facts.process.index), None)
    if stacks is None or not stacks.chunks:
        return _NO_STACKS
    thread = main_thread(facts.profile, stacks)
    if isinstance(thread, Missing):
        return thread
    tree = samples_within(stacks, intervals, rows=of_thread(stacks, thread))
    if tree.samples < _FEWEST or not tree.total_ns:
        return Missing("too few stacks were read in it")
    found: dict[tuple[str, str], int] = {}
    for stack, ns in stacks_of(tree):
        own = next((frame for frame in reversed(stack) if is_of_program(frame)), stack[-1])
        key = (stack[-1].function, _source(own))
        found[key] = found.get(key, 0) + ns
    ordered = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return tuple((*key, ns / tree.total_ns) for key, ns in ordered), tree.samples


def _source(frame: SampledFrame) -> str:
    return f"{frame.file}:{frame.line}" if frame.file else ""
