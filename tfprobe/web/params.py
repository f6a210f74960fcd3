"""What a page asks of a run: the arguments of its address, each checked where it is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfprobe.errors import UsageError

# Longer than what a person types. Names in recordings may be longer: ask for those by number.
_MOST_CHARACTERS = 4096
# What a question of a stranger is quoted with at most.
_SHOWN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Params:
    """The arguments of a question, by name. All of its methods raise UsageError for nonsense."""

    arguments: Mapping[str, str] = field(default_factory=dict)

    def whole(self, name: str, *, default: int, least: int = 0, most: int = 2**63 - 1) -> int:
        """Return a whole number from `least` to `most`."""
        given = self.arguments.get(name, "")
        if not given:
            return default
        try:
            number = int(given) if len(given) <= len(str(most)) + 1 else most + 1
        except ValueError:
            raise self._wrong(name, "is no whole number") from None
        if not least <= number <= most:
            raise self._wrong(name, f"is not from {least:,} to {most:,}")
        return number

    def one_of(self, name: str, allowed: Sequence[str], *, default: str) -> str:
        """Return one of the words allowed."""
        given = self.arguments.get(name) or default
        if given not in allowed:
            raise self._wrong(name, f"is none of {', '.join(allowed)}")
        return given

    def text(self, name: str) -> str:
        """Return a text, "" where none is given."""
        given = self.arguments.get(name, "")
        if len(given) > _MOST_CHARACTERS:
            raise self._wrong(name, f"has more than {_MOST_CHARACTERS:,} characters")
        return given

    def _wrong(self, name: str, why: str) -> UsageError:
        given = self.arguments[name]
        shown = given[:_SHOWN_CHARACTERS] + ("…" if len(given) > _SHOWN_CHARACTERS else "")
        return UsageError(f"The argument {name} {why}: {shown!r}.")
