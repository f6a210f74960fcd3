"""Who may ask: checks every request before anything else sees it, and exchanges tokens for cookies.

Pages themselves hold nothing of a run, so whoever reaches the server by one of its names gets them.
Everything below /api needs the cookie, and a page of another site must not request it.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tfprobe.errors import UsageError
from tfprobe.web.server import body
from tfprobe.web.server.errors import error_response, is_api, status_of
from tfprobe.web.server.hosts import Hosts, headers_of, port_of

SESSION = "/api/session"
# Longer than any address of ours with the longest argument that a question takes.
MOST_ADDRESS_BYTES = 32_768
_READING = ("GET", "HEAD")

NO_HOST = "This server does not go by that name; name it by --host, or ask for 127.0.0.1."
FOREIGN = "Another site asks; only pages of this server may."
NO_TOKEN = "Who asks is not known: open the address that `tfprobe ui` printed, with its token."
WRONG_TOKEN = "This is not the token: it is in the address that `tfprobe ui` printed."
TOO_LONG = "The address is too long."


class Guard:
    """Lets through whom the keys open for, by a name of this server, from a page of it."""

    def __init__(self, app: ASGIApp, *, keys: Keys, hosts: Hosts) -> None:
        """Take what answers, and who may ask it."""
        self._app = app
        self._keys = keys
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            refused = self._refused(scope)
            if refused is None and (scope["method"], scope["path"]) == ("POST", SESSION):
                refused = await self._exchanged(Request(scope, receive))
            await (refused or self._app)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _refused(self, scope: Scope) -> Response | None:
        path: str = scope["path"]
        hosts = headers_of(b"host", scope["headers"])
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_ADDRESS_BYTES:
            return error_response(414, TOO_LONG, path=path)
        if len(hosts) != 1 or not self._hosts.allow(hosts[0]):
            return error_response(403, NO_HOST, path=path)
        reads = scope["method"] in _READING
        if reads and not is_api(path):
            return None
        if not _is_of_our_page(Headers(scope=scope), hosts[0], reads=reads):
            return error_response(403, FOREIGN, path=path)
        exchanges = (scope["method"], path) == ("POST", SESSION)
        if is_api(path) and not exchanges and not self._is_known(scope, hosts[0]):
            return error_response(401, NO_TOKEN, path=path)
        return None

    def _is_known(self, scope: Scope, host: str) -> bool:
        name = cookie_name(host)
        given = [cookie_parser(text) for text in headers_of(b"cookie", scope["headers"])]
        return any(self._keys.is_cookie(cookies.get(name, "")) for cookies in given)

    async def _exchanged(self, request: Request) -> Response:
        try:
            fields = await body.fields(request)
        except UsageError as problem:
            return error_response(status_of(problem), str(problem), path=SESSION)
        token = fields.get("token")
        if not isinstance(token, str) or not self._keys.opens(token):
            return error_response(401, WRONG_TOKEN, path=SESSION)
        answer = Response(status_code=204)
        name = cookie_name(request.headers["host"])
        answer.set_cookie(name, self._keys.cookie, httponly=True, samesite="strict")
        return answer


def cookie_name(host: str) -> str:
    """Return the name of the cookie under a `Host`.

    With the port, because cookies of one name are shared by all servers of a host; with that of
    the browser, because tunnels to servers of one port end at several of its own.
    """
    return f"tfprobe-{port_of(host)}"


def _is_of_our_page(headers: Headers, host: str, *, reads: bool) -> bool:
    """Say whether a page of ours asks, or a person by the address bar, or no browser at all.

    Browsers tell in `Origin` and `Sec-Fetch-Site` whose page asks, and no script can change them.
    """
    origins = headers.getlist("origin")
    sites = headers.getlist("sec-fetch-site")
    ours = (f"http://{host}".lower(), f"https://{host}".lower())
    if any(origin.lower() not in ours for origin in origins):
        return False
    if not reads:
        # Every browser tells it of whatever changes something.
        return len(origins) == 1 and all(site == "same-origin" for site in sites)
    return all(site in ("same-origin", "none") for site in sites)


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
        served = [issued for issued in self._once if _are_equal(issued, token)]
        self._once = [issued for issued in self._once if issued not in served]
        return bool(served) or _are_equal(self.token, token)

    def is_cookie(self, value: str) -> bool:
        """Say whether a cookie is the one that a token was exchanged for."""
        return _are_equal(self.cookie, value)


def _are_equal(ours: str, given: str) -> bool:
    # As bytes: of text that is not ASCII compare_digest raises, and JSON may hold half a character.
    return hmac.compare_digest(ours.encode(), given.encode("utf-8", "surrogatepass"))
