"""Make names of a recording fit for a page: they may be a megabyte long, and no Unicode at all."""

from __future__ import annotations

# What a page shows of a name. Nobody reads on, and ten thousand such are still a small document.
SHOWN_CHARACTERS = 200
# Longer than any path of scopes that a person made; an address of more is of no use.
PATH_CHARACTERS = 1000


def shown(name: str, most: int = SHOWN_CHARACTERS) -> str:
    """Return a name, cut in its middle where it is too long: its end tells most."""
    if len(name) > most:
        end = most // 2
        name = f"{name[: most - end - 1]}…{name[-end:]}"
    # Half a character, which JSON may hold and UTF-8 may not.
    return name.encode("utf-8", "replace").decode("utf-8")


def is_whole(name: str) -> bool:
    """Say whether a page shows a name as it is, so that it may ask for it again."""
    return shown(name) == name


def address(path: str) -> str | None:
    """Return a path that a page may ask for, None where it is no text or too long for that."""
    return path if shown(path, PATH_CHARACTERS) == path else None
