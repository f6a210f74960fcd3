"""What opens the server: a token for people, another that serves once, and a cookie for both.

All three are of 256 bits, live in memory alone, and are compared in constant time.
"""

from __future__ import annotations

import hmac
import secrets

_BYTES = 32


class Keys:
    """The keys of one server."""

    def __init__(self) -> None:
        """Make new ones."""
        self.token = secrets.token_urlsafe(_BYTES)
        self.cookie = secrets.token_urlsafe(_BYTES)
        self._once: list[str] = []

    def once(self) -> str:
        """Return a token that is good for one time.

        A browser is started with its address as an argument, which every user of the machine can
        read in the list of processes: by then it is worth nothing.
        """
        self._once.append(secrets.token_urlsafe(_BYTES))
        return self._once[-1]

    def opens(self, token: str) -> bool:
        """Say whether a token is one of ours; one that serves once has served then."""
        served = [each for each in self._once if _are_equal(each, token)]
        self._once = [each for each in self._once if each not in served]
        return bool(served) or _are_equal(self.token, token)

    def is_cookie(self, value: str) -> bool:
        """Say whether a cookie is the one that a token was exchanged for."""
        return _are_equal(self.cookie, value)


def _are_equal(ours: str, given: str) -> bool:
    # As bytes: of text that is not ASCII compare_digest raises, and JSON may hold half a character.
    return hmac.compare_digest(ours.encode(), given.encode("utf-8", "surrogatepass"))
