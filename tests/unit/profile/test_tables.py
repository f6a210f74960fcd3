"""Tables of rows of captures."""

from __future__ import annotations

from tests.support.profiles import op, table


def test_rows_are_given_capture_by_capture() -> None:
    """A capture without rows is not given."""
    made = table([[op("A", 0, 1), op("B", 5, 1)], [], [op("C", 0, 1)]])

    found = {number: [row.op_type for row in rows] for number, rows in made.by_capture()}

    assert found == {0: ["A", "B"], 2: ["C"]}
