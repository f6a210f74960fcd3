"""Hold each string once: columns of text are positions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Strings:
    """Interned strings: a column holds positions in `values`."""

    values: tuple[str, ...]

    def __getitem__(self, position: int) -> str:
        return self.values[position]


class Interner:
    """Gives each string a position, the same one whenever it comes again."""

    def __init__(self) -> None:
        """Start with the empty string, at position 0: what columns of text hold by default."""
        self._positions: dict[str, int] = {"": 0}
        self._texts: list[str] = [""]
        self._given = Strings(("",))

    def __len__(self) -> int:
        """Return how many strings have a position."""
        return len(self._texts)

    def position(self, text: str) -> int:
        """Return the position of a string."""
        known = self._positions.get(text)
        if known is None:
            known = self._positions[text] = len(self._texts)
            self._texts.append(text)
        return known

    def text(self, position: int) -> str:
        """Return the string at a position."""
        return self._texts[position]

    def strings(self) -> Strings:
        """Return all strings so far, each at its position."""
        # The tables of a capture share them, and so do captures without new ones.
        if len(self._given.values) != len(self._texts):
            self._given = Strings(tuple(self._texts))
        return self._given
