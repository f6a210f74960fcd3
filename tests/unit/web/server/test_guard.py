"""Who may ask the server: by its name, from its own page, with the cookie that the token gave."""

from __future__ import annotations

import json

import pytest

from tests.unit.web.server.conftest import ORIGIN, Served, exchange, write
from tfprobe.web.server.auth import MOST_ADDRESS_BYTES, Keys

DOCUMENTS = (
    "/api/runs",
    "/api/trials",
    "/api/run/r1/overview",
    "/api/nonsense",
    "/api",
    "/api/session",
)


def test_the_token_opens(served):
    """It is exchanged for a cookie that no script reads and no other site sends."""
    browser = served.stranger()

    answer = exchange(browser, served.keys.token)

    (cookie,) = answer.headers.getlist("set-cookie")
    assert answer.status == 204
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert served.keys.token not in cookie
    assert browser.get("/api/runs").status == 200


@pytest.mark.parametrize("path", DOCUMENTS)
def test_without_the_cookie_nothing_of_a_run_is_told(served, path):
    """Not even which runs and documents there are."""
    answer = served.stranger().get(path)

    assert answer.status == 401
    assert "r1" not in answer.text


@pytest.mark.parametrize(
    "token", ["", "x", "ü" * 43, "\ud800", "a\0b", None, 7, ["x"], {"x": 1}, "x" * 3000]
)
def test_a_wrong_token_is_told_as_such(served, token):
    """Whatever it is made of."""
    browser = served.stranger()

    answer = exchange(browser, token)

    assert answer.status == 401
    assert "is not the token" in answer.json()["error"]
    assert "set-cookie" not in answer.headers
    assert browser.get("/api/runs").status == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b"{", 400), (b"[" * 4000, 400), (b"\xff", 400), (b"x" * 5000, 413)],
)
def test_what_is_no_request_for_a_session(served, body, status):
    """One sentence, and the server goes on."""
    answer = served.stranger().post("/api/session", body)

    assert answer.status == status
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("value", ["x", "", "ü", '"', "x; y=z"])
def test_a_wrong_cookie_is_none(served, value):
    """As if there were none."""
    cookie = f"tfprobe-8470={value}".encode()

    answer = served.stranger().get("/api/runs", cookie=cookie)

    assert answer.status == 401


def test_a_cookie_is_of_the_port_that_the_browser_sees(served):
    """Two tunnels to servers of one port end at different ports of one browser."""
    browser = served.stranger("http://localhost:9999")

    exchange(browser, served.keys.token)

    assert list(browser.cookies) == ["tfprobe-9999"]
    assert browser.get("/api/runs").status == 200


def test_a_token_for_one_time_serves_once(served):
    """Who reads it in the list of processes comes too late."""
    token = served.keys.once()

    answers = [exchange(served.stranger(), token).status for _ in range(2)]

    assert answers == [204, 401]


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8470", "localhost", "LOCALHOST:1", "[::1]:8470", "127.0.0.1:65535"]
)
def test_names_of_this_machine_are_its_own(served, host):
    """At any port: the browser may be at the other end of a tunnel."""
    assert served.stranger().get("/", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8470",
        "evil.example:8470",
        "127.0.0.2",
        "10.1.2.3:8470",
        "node7.example.org",
        "x@127.0.0.1",
        "127.0.0.1:8470@evil.example",
        "127.0.0.1:8470:1",
        "127.0.0.1:",
        "[::1",
        "",
        " ",
        "ü",
    ],
)
@pytest.mark.parametrize("path", ["/", "/page.js", "/api/runs"])
def test_under_another_name_nothing_is_answered(served, host, path):
    """A site whose name was made to lead here (DNS rebinding) gets nothing."""
    answer = served.known().get(path, host=host.encode())

    assert answer.status == 403
    assert "does not go by that name" in answer.text


def test_a_server_for_all_addresses_goes_by_each_of_them(tmp_path):
    """In figures, or by the machine's own name; no other name."""
    browser = Served(tmp_path, host="0.0.0.0").stranger()
    hosts = ("10.1.2.3:8470", "[fe80::1]:8470", "node7:8470", "node7.example.org", "evil.example")

    answers = [browser.get("/", host=host).status for host in hosts]

    assert answers == [200, 200, 200, 200, 403]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "http://localhost:8470"},
        {"origin": "http://127.0.0.1:8470.evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": ORIGIN, "sec_fetch_site": "cross-site"},
    ],
)
def test_pages_of_others_are_refused(served, headers):
    """Another site, another server of this machine, a file: none of them may read or order."""
    browser = served.known()

    read = browser.get("/api/runs", **headers)
    posted = browser.post("/api/session", {"token": served.keys.token}, **headers)

    assert (read.status, posted.status) == (403, 403)
    assert "set-cookie" not in posted.headers


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": ORIGIN}, {"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "none"}],
)
def test_its_own_pages_and_the_address_bar_may_read(browser, headers):
    """And programs that are no browser, with the cookie."""
    assert browser.get("/api/runs", **headers).status == 200


def test_what_changes_something_must_say_where_it_is_from(served):
    """Every browser does."""
    body = json.dumps({"token": served.keys.token}).encode()

    answer = served.stranger().ask("POST", "/api/session", {}, body)

    assert answer.status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize("path", ["/", "/page.js", "/api/runs", "/api/run/r1/overview"])
def test_it_is_for_reading(served, method, path):
    """No other method does anything, and none tells another site that it might."""
    answer = served.known().ask(method, path, {"origin": ORIGIN})

    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_endless_address_is_not_read(browser):
    """It is told so."""
    answer = browser.get("/api/run/r1/overview?work=" + "1" * MOST_ADDRESS_BYTES)

    assert answer.status == 414


@pytest.mark.parametrize(
    ("path", "host"),
    [
        ("/", "127.0.0.1"),
        ("/page.js", "127.0.0.1"),
        ("/nonsense", "127.0.0.1"),
        ("/api/runs", "127.0.0.1"),
        ("/api/nonsense", "127.0.0.1"),
        ("/", "evil.example"),
        ("/api/runs", "evil.example"),
    ],
)
def test_every_answer_forbids_what_pages_do_not_need(served, path, host):
    """Refusals, too."""
    headers = served.known().get(path, host=host).headers

    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == ("no-store" if path.startswith("/api") else "no-cache")


def test_no_two_servers_have_a_key_in_common(tmp_path):
    """They are made anew at each start, of 256 bits."""
    keys = [Keys() for _ in range(2)]

    values = {each for key in keys for each in (key.token, key.cookie, key.once())}

    assert len(values) == 6
    assert {len(each) for each in values} == {43}


def test_the_key_of_one_server_opens_no_other(served, tmp_path):
    """As of one that ran at this port before."""
    write(tmp_path / "others" / "r1")
    browser = served.known()

    browser.app = Served(tmp_path / "others").app

    assert browser.get("/api/runs").status == 401
