"""How many bytes of an allocator are live at each moment, and which allocations."""

from __future__ import annotations

from collections.abc import Sequence

from tfprobe.analysis.memory.allocator_levels import level, pieces
from tfprobe.profile.capture_tables import Allocations
from tfprobe.profile.tables import Columns, Interner


def events(rows: Sequence[tuple[int, int, int, int]], ops: Sequence[str] = ()) -> Allocations:
    """Build events of an allocator: moment, bytes, address, and what it reports to be in use."""
    interner, columns = Interner(), Columns(Allocations)
    names = ops or [""] * len(rows)
    for (at_ns, size, address, in_use), op in zip(rows, names, strict=True):
        columns.add(
            1,
            at_ns=at_ns,
            bytes=size,
            address=address,
            in_use_bytes=in_use,
            free_bytes=-1,
            peak_bytes=-1,
            largest_free_bytes=-1,
            op=interner.position(op),
        )
    return columns.rows(interner)


def test_what_is_held_is_what_the_allocator_says() -> None:
    """It held 100 before the step began."""
    found = level(events([(1, 10, 1, 110), (2, 20, 2, 130), (3, -10, 1, 120)]))

    assert (found.live_bytes.tolist(), found.is_absolute) == ([110, 130, 120], True)
    assert found.top_bytes == 130


def test_events_before_the_first_statement_count_from_it() -> None:
    """A RunMetadata has the level at the end of an op, and allocations in between."""
    found = level(events([(1, 10, 0, -1), (2, 20, 0, -1), (3, 0, 0, 130), (4, 5, 0, -1)]))

    assert found.live_bytes.tolist() == [110, 130, 130, 135]


def test_an_allocator_that_says_nothing_holds_more_than_before() -> None:
    """How much it held when the step began is unknown."""
    found = level(events([(1, 10, 0, -1), (2, -10, 0, -1)]))

    assert (found.live_bytes.tolist(), found.is_absolute) == ([10, 0], False)


def test_a_piece_lives_until_its_address_is_given_back() -> None:
    """The address is used again at once, by another op."""
    found = pieces(events([(1, 10, 7, -1), (5, -10, 7, -1), (6, 30, 7, -1), (9, -30, 7, -1)]))

    assert found.start_ns.tolist() == [1, 6]
    assert found.end_ns.tolist() == [5, 9]
    assert found.live_at(4).tolist() == [True, False]
    assert found.live_at(5).tolist() == [False, False]


def test_what_was_taken_before_the_step_ends_no_piece_of_it() -> None:
    """Its address is freed first, and then allocated again."""
    found = pieces(events([(1, -99, 7, -1), (2, 10, 7, -1)]))

    assert found.start_ns.tolist() == [2]
    assert found.live_at(10**6).tolist() == [True]


def test_without_addresses_op_and_size_tell_what_ends() -> None:
    """First in, first out."""
    rows = [(1, 10, 0, -1), (2, 10, 0, -1), (3, 20, 0, -1), (4, -10, 0, -1), (5, -20, 0, -1)]

    found = pieces(events(rows, ["a", "a", "b", "a", "b"]))

    ends = dict(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True))
    assert (ends[1], ends[3]) == (4, 5)
    assert ends[2] > 10**9
