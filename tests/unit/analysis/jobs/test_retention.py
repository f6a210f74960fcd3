"""Which runs go: those that any rule wants gone, and never one that is held."""

from __future__ import annotations

import itertools
import random

import pytest

from tfprobe.analysis.jobs.run_selection import Candidate, RetentionRules, choose_removals
from tfprobe.errors import Missing
from tfprobe.profile.snapshots import RunLine

NOW_NS = 2_000_000_000_000_000_000
HOUR_NS = 3600 * 10**9


def _run(name: str, *, hours: int, size: int | None = 10, state: str = "finished") -> RunLine:
    return RunLine(
        *(name, f"/runs/{name}", Missing("-"), Missing("-"), Missing("-"), 1, 5),
        state=state,
        active_unix_ns=NOW_NS - hours * HOUR_NS,
        size_bytes=Missing("not measured") if size is None else size,
    )


# Newest first, as a listing has them.
RUNS = tuple(Candidate(_run(name, hours=hours)) for hours, name in enumerate("abcde", 1))


def _goes(candidates: tuple[Candidate, ...], rules: RetentionRules) -> dict[str, tuple[str, ...]]:
    return {each.run.id: each.rules for each in choose_removals(candidates, rules, NOW_NS).goes}


def test_without_a_rule_nothing_goes() -> None:
    """All stay, however old and large."""
    assert _goes(RUNS, RetentionRules()) == {}


@pytest.mark.parametrize(
    ("rules", "gone"),
    [
        (RetentionRules(keep=5), ""),
        (RetentionRules(keep=3), "de"),
        (RetentionRules(keep=1), "bcde"),
        (RetentionRules(older_ns=3 * HOUR_NS), "de"),
        (RetentionRules(older_ns=5 * HOUR_NS), ""),
        (RetentionRules(size_bytes=50), ""),
        (RetentionRules(size_bytes=49), "e"),
        (RetentionRules(size_bytes=20), "cde"),
        (RetentionRules(size_bytes=1), "abcde"),
    ],
)
def test_each_rule_takes_the_oldest(rules: RetentionRules, gone: str) -> None:
    """Beyond a number of runs, an age, or the size of all together."""
    assert "".join(_goes(RUNS, rules)) == gone


def test_any_rule_is_enough_and_all_are_told() -> None:
    """Whoever reads the list sees why each of them goes."""
    assert _goes(RUNS, RetentionRules(keep=4, older_ns=3 * HOUR_NS)) == {
        "d": ("older",),
        "e": ("keep", "older"),
    }


def test_what_goes_by_another_rule_frees_its_size_first() -> None:
    """Of 50 bytes 10 go by number, so the rule of size takes one run and not two."""
    assert _goes(RUNS, RetentionRules(keep=4, size_bytes=30)) == {"d": ("size",), "e": ("keep",)}


def test_a_held_run_stays_and_counts() -> None:
    """It is one of the newest, occupies its size, and is told with what wanted it gone."""
    held = (RUNS[0], Candidate(RUNS[1].run, locked="is running"), *RUNS[2:])

    by_number = choose_removals(held, RetentionRules(keep=1), NOW_NS)
    by_size = choose_removals(held, RetentionRules(size_bytes=10), NOW_NS)

    assert [each.run.id for each in by_number.goes] == ["c", "d", "e"]
    assert [(each.run.id, each.rules) for each in by_number.locked] == [("b", ("keep",))]
    assert [each.run.id for each in by_size.goes] == ["a", "c", "d", "e"]
    assert [(each.run.id, each.locked) for each in by_size.locked] == [("b", "is running")]


def test_a_live_run_has_no_age_and_an_undated_one_is_not_old() -> None:
    """A job that wrote nothing for a day is still there."""
    running = Candidate(_run("r", hours=99, state="stopped"))
    undated = Candidate(RunLine("u", "/runs/u", *[Missing("-")] * 3, 0, 0, "killed"))

    assert _goes((running, undated), RetentionRules(older_ns=1)) == {}


def test_whatever_the_rules_what_stays_fits_them_or_is_held() -> None:
    """Made-up runs: nothing held goes, nothing goes without a rule, and the limits hold."""
    chance = random.Random(5)
    for _ in range(300):
        runs = tuple(
            Candidate(_run(str(place), hours=chance.randrange(9), size=chance.choice([0, 5, 40])))
            for place in range(chance.randrange(12))
        )
        runs = tuple(
            Candidate(each.run, locked="held") if chance.random() < 0.3 else each for each in runs
        )
        keep, hours, size = (chance.choice([None, 1, 3, 60]) for _ in range(3))
        older_ns = None if hours is None else hours * HOUR_NS

        found = choose_removals(runs, RetentionRules(keep, older_ns, size), NOW_NS)

        gone = {each.run.id for each in found.goes}
        stays = [each for each in runs if each.run.id not in gone]
        free = [each for each in stays if each.locked is None]
        assert all(each.locked is None and each.rules for each in found.goes)
        assert [each.run.id for each in found.goes] == sorted(gone, key=int)
        if keep is not None:
            assert all(runs.index(each) < keep for each in free)
        if size is not None and free:
            assert sum(each.run.size_bytes for each in stays) <= size
        for older, newer in itertools.combinations(found.goes[::-1], 2):
            assert int(older.run.id) > int(newer.run.id)
