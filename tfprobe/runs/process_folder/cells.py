"""Name the cells of notebooks: what IPython compiles under /tmp/ipykernel_4711/2965734838.py is
`train.ipynb cell [3]` to whoever wrote it. Names come from cells.jsonl, and else from the file's.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

FILE = "cells.jsonl"
# As IPython names cells: of its kernels, by a hash of their code; on a terminal, by their number.
_BY_HASH = re.compile(r"/ipykernel_\d+/(\d+)\.py$")
_BY_NUMBER = re.compile(r"^<ipython-input-(\d+)-[0-9a-f]+>$")
_NAME = re.compile(rb'"(?:/[^"\\]*/ipykernel_\d+/\d+\.py|<ipython-input-\d+-[0-9a-f]+>)"')
_HASH_DIGITS = 4
_MOST_BYTES = 1 << 24


class CellNames:
    """The names of the cells of one process, read from its folder when a first one is asked for."""

    def __init__(self, folder: Path) -> None:
        """Take the folder of the process; one without cells.jsonl is as good."""
        self._path = folder / FILE
        self._seen: tuple[int, ...] = ()
        self._known: dict[str, str] = {}

    def shown(self, file: str) -> str:
        """Return the name of a cell by the file it was compiled as, and other files as given."""
        by_hash, by_number = _BY_HASH.search(file), _BY_NUMBER.search(file)
        if by_hash is None and by_number is None:
            return file
        self._read()
        known = self._known.get(file)
        if known is not None:
            return known
        if by_number is not None:
            return f"cell [{by_number[1]}]"
        # Ten digits tell no more than a few to the one cell in hundreds that nobody numbered.
        return f"cell …{by_hash[1][-_HASH_DIGITS:]}" if by_hash else file

    def renamed(self, lines: bytes) -> bytes:
        """Return lines of JSON with cells by their names."""
        return _NAME.sub(self._replacement, lines)

    def _replacement(self, found: re.Match[bytes]) -> bytes:
        return json.dumps(self.shown(found[0][1:-1].decode("utf-8", "replace"))).encode()

    def _read(self) -> None:
        """Read the file if it has changed; lines of which are small and few."""
        try:
            found = os.stat(self._path)
            seen = found.st_ino, found.st_size, found.st_mtime_ns
            if seen == self._seen or found.st_size > _MOST_BYTES:
                return
            content = self._path.read_bytes()
        except (OSError, ValueError):  # ValueError: no file can have such a name
            return
        self._seen = seen
        for line in content.split(b"\n"):
            try:
                fields = json.loads(line)
                file, cell, notebook = fields["file"], int(fields["cell"]), fields["notebook"]
            except (ValueError, TypeError, KeyError, RecursionError):
                continue  # half a line, or none of the agent's
            if isinstance(file, str):
                of = f"{notebook} " if isinstance(notebook, str) else ""
                self._known[file] = f"{of}cell [{cell}]"
