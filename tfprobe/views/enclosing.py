"""The scopes around a name. All those of one with 100,000 levels would take 10 GB of memory."""

from __future__ import annotations

# No model nests deeper, nor has longer names for its layers.
MOST_SCOPES = 256
MOST_CHARACTERS = 4096
# Looks like the sign between scopes, and is none.
_NO_SCOPE = "\N{DIVISION SLASH}"


def scopes_around(name: str) -> list[str]:
    """Return the scopes around a name, innermost first; of a name without end the outermost."""
    parts = name[:MOST_CHARACTERS].split("/", MOST_SCOPES)[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


def bounded(name: str) -> str:
    """Return a name that has no more scopes than are told: what is deeper is one step."""
    if len(name) <= MOST_CHARACTERS and name.count("/") <= MOST_SCOPES:
        return name
    around = next(iter(scopes_around(name)), "")
    inside = name[len(around) :].lstrip("/")
    return f"{around}/{inside.replace('/', _NO_SCOPE)}"
