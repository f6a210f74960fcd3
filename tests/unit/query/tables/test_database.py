"""DuckDB works for us in silence."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

JOB = """
import sys
from pathlib import Path
from tfprobe.query.tables import database
is_writer = sys.argv[1] == "writer"
connection = database.writer() if is_writer else database.query_connection(Path.cwd(), [])
rows = connection.execute("SELECT value FROM duckdb_settings() WHERE name = 'enable_progress_bar'")
print(sys.stdout.isatty(), *rows.fetchone())
"""


@pytest.mark.parametrize("which", ["writer", "query"])
def test_no_progress_bar_is_drawn_on_a_terminal(which: str) -> None:
    """There DuckDB draws one by itself where a query takes two seconds, among the rows."""
    master, slave = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", JOB, which], stdout=slave) as process:
        os.close(slave)
        with os.fdopen(master, "rb") as terminal:
            line = terminal.readline()
    assert process.returncode == 0
    assert line.split() == [b"True", b"false"]
