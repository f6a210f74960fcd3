"""Number the names of events, and keep what each says: it is found out once for all captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from tfprobe.profile.tables import Int32s


class EventNames:
    """The names of events in the captures so far, each with a number; 0 is that of no name."""

    def __init__(self) -> None:
        """Know no name."""
        self.texts: list[str] = [""]
        self._numbers: dict[str, int] = {"": 0}

    def numbers(self, texts: list[str]) -> Int32s:
        """Return the numbers of names."""
        known = self._numbers
        for text in texts:
            if text not in known:
                known[text] = len(self.texts)
                self.texts.append(text)
        return np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))


class Facts:
    """What names say: `find` makes numbers of a name, as many for each."""

    def __init__(self, names: EventNames, find: Callable[[str], Iterable[int]]) -> None:
        """Begin with no name but the empty one."""
        self._names = names
        self._find = find
        self._rows = np.array([[*find("")]], dtype=np.int32)

    def columns(self) -> tuple[Int32s, ...]:
        """Return the columns of what all names say, by their numbers."""
        new = [[*self._find(text)] for text in self._names.texts[len(self._rows) :]]
        if new:
            self._rows = np.concatenate((self._rows, np.array(new, dtype=np.int32)))
        return tuple(self._rows.T)
