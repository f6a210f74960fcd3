"""The tree of calls: own times add up to the elapsed time, whatever was called or not reported."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.agent import load

calls = load("core.calls")
gaps = load("core.gaps")

Row = tuple[int, tuple[str, int, str, bool], int, int, int]


class Seen:
    """The result of a watch of this thread."""

    rows: list[Row]
    lasted_ns: int

    def names(self) -> dict[str, Row]:
        return {row[1][2]: row for row in self.rows}


@pytest.fixture
def watched(state: Any) -> Callable[[], contextlib.AbstractContextManager[Seen]]:
    """Watch the code inside; no other tool may watch this thread."""
    if gaps.somebody_watches():
        pytest.skip("a debugger or a coverage tool watches this thread")

    @contextlib.contextmanager
    def watch() -> Iterator[Seen]:
        seen = Seen()
        allowance = gaps.Allowance(1 << 60, 1 << 60, 1)
        start_ns = time.monotonic_ns()
        profile, settle = calls.make_profile_function(
            sys._getframe(), start_ns, allowance, lambda _: False, lambda _: None
        )
        sys.setprofile(profile)
        try:
            yield seen
        finally:
            sys.setprofile(None)
        end_ns = time.monotonic_ns()
        nodes, _events, made_ns = settle(end_ns)
        rows, functions = calls.rows_of(nodes)
        seen.rows = [(row[0], tuple(functions[row[1]]), *row[2:]) for row in rows]
        # The time to add new calls counts for nobody.
        seen.lasted_ns = end_ns - start_ns - made_ns

    return watch


def total(seen: Seen) -> int:
    return sum(row[4] for row in seen.rows)


def test_own_times_add_up_to_the_elapsed_time(watched: Any) -> None:
    """Through generators left early, exceptions, and C functions that call back."""

    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            sorted([3, 1], key=lambda value: -value)

    def fail() -> None:
        raise ValueError

    with watched() as seen:
        for number in numbers():
            if number == 3:
                break
        with contextlib.suppress(ValueError):
            fail()
        with contextlib.suppress(ValueError):
            list(map(int, ["x"]))
        next(iter([]), None)

    assert 0 < total(seen) <= seen.lasted_ns
    rows = seen.names()
    assert rows["numbers"][1][3]
    assert rows["<lambda>"][3] == 2
    assert {"fail", "builtins.sorted", "builtins.next", "builtins.iter"} <= set(rows)


def test_deep_calls_count_as_own_time_of_their_ancestors(watched: Any) -> None:
    """64 levels are distinguished."""

    def down(levels: int) -> None:
        if levels:
            down(levels - 1)

    with watched() as seen:
        down(300)

    depths = [0] * len(seen.rows)
    for index, row in enumerate(seen.rows):
        depths[index] = 0 if row[0] < 0 else depths[row[0]] + 1
    assert max(depths) <= calls.MAX_DEPTH
    assert 0 < total(seen) <= seen.lasted_ns


@pytest.mark.parametrize("count", [600, 6000])
def test_the_longest_of_many_calls_are_kept(watched: Any, count: int) -> None:
    """A slow one is among them wherever it comes; the time of others goes to their callers."""
    source = "import time\n" + "".join(f"def f{n}(): pass\n" for n in range(count))
    source += "def slow(): time.sleep(0.02)\n"
    source += "def many():\n slow()\n" + "".join(f" f{n}()\n" for n in range(count))
    made: dict[str, Any] = {}
    exec(source, made)

    with watched() as seen:
        made["many"]()

    assert len(seen.rows) == calls.KEPT
    assert seen.names()["time.sleep"][4] >= 20_000_000
    assert 0 < total(seen) <= seen.lasted_ns
    assert all(row[0] < index for index, row in enumerate(seen.rows))


def test_unreported_returns_are_noticed_at_the_next_event(watched: Any) -> None:
    """Python 3.12 does not report some, and greenlets change the stack below a profile function."""

    def inner() -> None:
        profile = sys.getprofile()
        assert profile is not None
        sys.setprofile(None)
        frame = sys._getframe()
        profile(frame, "c_return", len)
        profile(frame, "return", None)
        profile(frame.f_back, "c_call", len)
        sys.setprofile(profile)

    def after() -> None:
        time.sleep(0.001)

    with watched() as seen:
        inner()
        after()

    assert 0 < total(seen) <= seen.lasted_ns
    sleep = seen.names()["time.sleep"]
    assert seen.rows[sleep[0]][1][2] == "after"


def test_a_call_site_that_calls_many_functions_names_each(watched: Any) -> None:
    """One line, five functions, each with its own count."""

    def a() -> None: ...
    def b() -> None: ...

    functions: list[Callable[..., Any]] = [a, b, len, a, abs, sum, b, a]
    with watched() as seen:
        for function in functions:
            function(*([()] if function in (len, sum) else [1] if function is abs else []))

    rows = seen.names()
    assert {name: rows[name][3] for name in ("a", "b")} == {"a": 3, "b": 2}
    assert {"builtins.len", "builtins.abs", "builtins.sum"} <= set(rows)


def test_code_around_a_step_has_the_line_it_was_at(watched: Any) -> None:
    """Its call was not seen; in a script its first line is the top of the file."""
    with watched() as seen:
        len("")

    (root,) = [row for row in seen.rows if row[0] == -1 and row[1][2].startswith("watch")]
    first_line, line = root[1][1], root[2]
    assert line > first_line
