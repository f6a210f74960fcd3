"""Match names against the regexes of a view: RE2's syntax, always the whole name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import re2

_QUIET = re2.Options()
_QUIET.log_errors = False


@dataclass(frozen=True, slots=True)
class Patterns:
    """Compiled regexes. One that does not compile matches nothing; `invalid` says which and why."""

    texts: tuple[str, ...]
    # RE2's objects, which have no public type.
    compiled: tuple[Any, ...]
    invalid: tuple[tuple[str, str], ...]

    @property
    def takes_all(self) -> bool:
        """Whether these are the one pattern that stands for "no restriction"."""
        return self.texts == (".*",)

    def any_matches(self, name: str) -> bool:
        """Tell whether one of them is the whole name."""
        return self.takes_all or any(each.fullmatch(name) for each in self.compiled)

    def any_is_in(self, text: str) -> bool:
        """Tell whether one of them is found anywhere in a text."""
        return any(each.search(text) for each in self.compiled)


def compile_patterns(texts: Sequence[str]) -> Patterns:
    """Compile regexes, keeping apart those that cannot be."""
    compiled, invalid = [], []
    for text in texts:
        try:
            compiled.append(re2.compile(text, _QUIET))
        except re2.error as exc:
            invalid.append((text, _message(exc)))
    return Patterns(tuple(texts), tuple(compiled), tuple(invalid))


def matching_all(patterns: Patterns, names: Iterable[str]) -> list[list[str]]:
    """Return the names each pattern matches, pattern by pattern."""
    names = list(names)
    return [[name for name in names if each.fullmatch(name)] for each in patterns.compiled]


def _message(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
