"""Preparation that takes a fifth of the process is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.subjects import WHOLE_NS, account, found, loop, process, timing
from tfprobe.analysis.account.categories import BEFORE_STEPS, SETUP
from tfprobe.analysis.account.ledger import Item
from tfprobe.findings.finding import Subject

WALL_NS = 2 * WHOLE_NS


def test_a_fifth_of_the_process_is_told() -> None:
    """By line where stacks were read; else the finding says how to have them."""
    item = Item("before the first step", "", WALL_NS // 5)
    by_line = Item("decode, before the first step", "train.py:9", WALL_NS // 5)

    plain, spent = (
        found("slow_start", processes=[process(account=account(WALL_NS, preparation=[each]))])
        for each in (item, by_line)
    )

    assert plain is not None
    assert spent is not None
    assert plain.gain.high_ns == WALL_NS // 5
    assert plain.evidence[-1].command == "tfprobe run --stacks"
    assert spent.evidence[0].source == "train.py:9"
    assert not spent.evidence[-1].command


def test_less_is_not() -> None:
    """Every program begins."""
    item = Item("before the first step", "", WALL_NS // 5 - 1)
    spent = account(WALL_NS, preparation=[item])

    assert found("slow_start", processes=[process(account=spent)]) is None


def test_a_process_without_steps_has_no_first_step() -> None:
    """Nobody knows what it prepared."""
    item = Item("before the first step", "", WALL_NS)
    spent = replace(account(WALL_NS, preparation=[item]), steps=0)

    assert found("slow_start", processes=[process(account=spent)]) is None


def test_garbage_of_the_preparation_counts_with_it() -> None:
    """What is collected while steps run does not."""
    item = Item("before the first step", "", WALL_NS // 5)
    garbage = [Item(BEFORE_STEPS, "", WALL_NS // 10), Item("while steps ran", "", WALL_NS // 10)]
    spent = account(WALL_NS, preparation=[item], garbage_collection=garbage)

    finding = found("slow_start", processes=[process(account=spent)])

    assert finding is not None
    assert finding.gain.high_ns == WALL_NS // 5 + WALL_NS // 10


def test_what_is_made_anew_between_steps_is_none() -> None:
    """As the graph of an Estimator that begins to train again."""
    setups = Item(SETUP, "train.py:9", WALL_NS // 2, times=5)
    spent = replace(account(WALL_NS, preparation=[setups]), prepared_ns=WALL_NS // 10)

    assert found("slow_start", processes=[process(account=spent)]) is None


@pytest.mark.parametrize(("ppid", "is_told"), [(4711, False), (1, True)])
def test_the_training_of_processes_that_it_started_is_no_preparation(ppid, is_told) -> None:
    """The first process waits for them, and evaluates in the end."""
    begun_ns = 10**18
    spent = account(WALL_NS, preparation=[Item("before the first step", "", WALL_NS // 2)])
    parent = process(account=spent)
    child = process(subject=Subject("node7", 4712), ppid=ppid)
    trains = timing(first_seen_ns=begun_ns, thread_ns=WALL_NS // 3)
    evaluates = timing(first_seen_ns=begun_ns + WALL_NS // 2)

    finding = found(
        "slow_start",
        loop(process=parent, timing=evaluates),
        loop(process=child, timing=trains),
        loop(process=child, timing=trains),
        processes=[parent, child],
    )

    assert (finding is not None) == is_told
