"""Values of a query as JSON and CSV: exact where they can be, never what is no JSON."""

from __future__ import annotations

import datetime
import json
import uuid
from decimal import Decimal
from typing import Any

import pytest

from tfprobe.export.rows import as_csv, as_json


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, None),
        (True, True),
        (2**100, 2**100),
        (0.1, 0.1),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (Decimal("12.50"), 12.5),
        ("a\nb\0\N{SNOWMAN}", "a\nb\0\N{SNOWMAN}"),
        (b"\x00\xff", "00ff"),
        (datetime.datetime(2026, 11, 20, 20, 15), "2026-11-20 20:15:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([1, None, [2]], [1, None, [2]]),
        ({"a": float("nan")}, {"a": "nan"}),
        ({(1, 2): 3}, {"[1, 2]": 3}),
    ],
)
def test_a_value_is_what_json_has(value: Any, told: Any) -> None:
    """A document can be read by any parser."""
    text = "".join(as_json([("a", "ANY")], [[(value,)]]))

    assert json.loads(text)["rows"] == [[told]]


def test_a_document_of_no_rows_is_one() -> None:
    """Nothing found is an answer."""
    text = "".join(as_json([("a", "BIGINT")], []))

    assert json.loads(text)["rows"] == []


def test_rows_of_many_batches_are_one_list() -> None:
    """Where a batch ends cannot be seen."""
    text = "".join(as_json([("a", "BIGINT")], [[(1,), (2,)], [(3,)]]))

    assert json.loads(text)["rows"] == [[1], [2], [3]]


def test_csv_keeps_cells_apart() -> None:
    """Quotes, commas and line ends stay in their cell; NULL is nothing."""
    text = "".join(as_csv([("a", "VARCHAR"), ("b", "BIGINT")], [[('x,"y"\n', None)], [("", 0)]]))

    assert text == 'a,b\n"x,""y""\n",\n,0\n'
