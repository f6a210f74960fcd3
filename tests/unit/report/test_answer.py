"""Rows of a query as a table: aligned, cut where a terminal ends, and harmless."""

from __future__ import annotations

from tfprobe.report.format.query_rows import render_rows


def _lines(columns: list[tuple[str, str]], *batches: list[tuple[object, ...]], width: int = 80):
    return "".join(render_rows(columns, batches, width=width, colour=False)).splitlines()


def test_numbers_stand_to_the_right() -> None:
    """NULL is a dash, truths are words."""
    columns = [("name", "VARCHAR"), ("n", "BIGINT"), ("ok", "BOOLEAN")]

    lines = _lines(columns, [("a", 5, True), ("bb", None, False)])

    assert lines == ["name  n  ok", "a     5  true", "bb    –  false", "2 rows"]


def test_texts_give_way_the_widest_first() -> None:
    """A number is never cut."""
    columns = [("short", "VARCHAR"), ("long", "VARCHAR"), ("number", "BIGINT")]

    lines = _lines(columns, [("abcdefgh", "x" * 50, 123_456_789)], width=40)

    assert lines[1] == f"abcdefgh  {'x' * 18}…  123456789"
    assert max(map(len, lines)) == 40


def test_later_rows_keep_the_columns() -> None:
    """Rows stream: what is wider than the first batch is cut."""
    lines = _lines([("a", "VARCHAR")], [("abc",)], [("abcdef",)])

    assert lines == ["a", "abc", "ab…", "2 rows"]


def test_names_cannot_steer_a_terminal() -> None:
    """Escape codes and line ends of a recording are shown as what they are not."""
    (_, line, _) = _lines([("a\x1b[2J", "VARCHAR")], [("b\x1b[31m\nc",)])

    assert "\x1b" not in line
    assert line.startswith("b\\x1b[31m\\nc")


def test_no_rows_have_a_heading() -> None:
    """Nothing found shows what was asked."""
    assert _lines([("a", "VARCHAR"), ("b", "BIGINT")]) == ["a  b", "0 rows"]
