"""docs/tables.md is what there is: every table, column and example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.asked_tables import asked, write_recorded
from tfprobe.query.tables.catalogue import SHAPES, VIEWS
from tfprobe.query.tables.run_tables import TableShape

PAGE = (Path(__file__).resolve().parents[4] / "docs" / "tables.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("shape", [*SHAPES, *VIEWS], ids=lambda shape: shape.name)
def test_the_page_has_every_column(shape: TableShape) -> None:
    """The columns of a table stand in the page as they are, in their order."""
    section = re.search(rf"^## {shape.name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None

    rows = [line for line in section[1].splitlines() if line.startswith("| `")]

    assert rows == [
        f"| `{each.name}` | {each.type} | {each.description} |" for each in shape.columns
    ]


def test_the_page_promises_no_other_table() -> None:
    """What has a table of columns in the page is a table."""
    told = re.findall(r"^## (\w+)\n\n[^\n]*\n\n\| column ", PAGE, re.MULTILINE)

    assert told == [shape.name for shape in (*SHAPES, *VIEWS)]


@pytest.mark.parametrize("query", EXAMPLES)
def test_examples_are_answered(query: str, tmp_path: Path) -> None:
    """Every example of the page can be pasted."""
    run = write_recorded(tmp_path / "run")

    columns, _ = asked(query, run)

    assert columns


@pytest.mark.parametrize("shape", [*SHAPES, *VIEWS], ids=lambda shape: shape.name)
def test_columns_are_what_the_page_says(shape: TableShape, tmp_path: Path) -> None:
    """What SQL sees of a table has the names and types of the page, with rows and without."""
    run = write_recorded(tmp_path / "run")

    told = [(column.name, column.type) for column in shape.columns]

    assert asked(f"select * from {shape.name}", run)[0] == told
    assert [row[:2] for row in asked(f"describe {shape.name}", run)[1]] == told
