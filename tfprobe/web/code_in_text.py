"""Tell code from words in a piece of advice, so that a page can let it be copied."""

from __future__ import annotations

import re
from collections.abc import Iterator

_INSIDE = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"
_VALUE = r"(?:'[^']*'|[\w.%-]*[\w%])"
_CODE = re.compile(
    rf"""
    `(?P<quoted>[^`]+)`
  | @?\.?\b[A-Za-z_][\w.]*\({_INSIDE}\)                      # a call: tf.function(...), .numpy()
  | \b[A-Za-z]\w*={_VALUE}                                   # a variable or an argument
  | \b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b                            # the name of a variable
  | @?\btf(?:\.\w+)+                                         # a name of TensorFlow
  | (?<![\w-])--\w[\w-]*(?:={_VALUE})?                       # a flag
  | \b[a-z]+(?:_[a-z0-9]+)+\b                                # a name in Python
    """,
    re.VERBOSE,
)


def told(text: str) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a text in order, each with whether it is code; quotes of code go."""
    return tuple(_parts(text))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    at = 0
    for found in _CODE.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], False
        yield found["quoted"] or found[0], True
        at = found.end()
    if at < len(text):
        yield text[at:], False
