"""The endpoint answers whoever asks for metrics, and nobody else, whatever they do."""

from __future__ import annotations

import gzip
import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from tests.support import looks, promlint
from tfprobe.errors import UsageError
from tfprobe.live.metrics import server as server_module
from tfprobe.live.metrics.exporter import Exporter, ExporterBusy, MetricsAnswer
from tfprobe.live.metrics.server import MOST_CLIENTS, Endpoint
from tfprobe.live.metrics.subjects import Limits

PATIENCE_S = 30


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def endpoint(said: list[str]) -> Iterator[Endpoint]:
    exporter = Exporter(looks.fleet, limits=Limits())
    found = Endpoint("127.0.0.1", 0, exporter.answer, complain=said.append)
    found.start()
    yield found
    found.stop()


def address(endpoint: Endpoint) -> tuple[str, int]:
    parts = urlsplit(endpoint.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def ask(
    endpoint: Endpoint, path: str = "/metrics", method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(*address(endpoint), timeout=PATIENCE_S)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    connection.request(method, path, headers=named)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


def test_metrics_are_in_the_text_format(endpoint):
    """For every client that asks for nothing else; the exporter tells of its own memory, too."""
    response, content = ask(endpoint)

    metrics = list(text_string_to_metric_families(content.decode()))
    ours = [metric for metric in metrics if metric.name.startswith("tfprobe_")]
    assert (response.status, response.headers["Content-Type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    assert promlint.complaints(ours) == []
    assert "process_resident_memory_bytes" in {metric.name for metric in metrics}


def test_metrics_are_in_openmetrics_where_that_is_asked_for(endpoint):
    """As Prometheus does."""
    asked = (
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
        "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
    )
    response, content = ask(endpoint, Accept=asked)

    names = {metric.name for metric in openmetrics_families(content.decode())}
    assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0")
    assert "tfprobe_step_duration_seconds" in names


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x", "\\\\", ";,;=", "é"])
def test_a_header_that_makes_no_sense_gets_the_plain_format(endpoint, said, accept: str):
    """Never a failure of ours."""
    response, content = ask(endpoint, Accept=accept)

    assert response.status == 200
    assert b"tfprobe_steps_total" in content
    assert said == []


def test_metrics_are_packed_where_that_is_asked_for(endpoint):
    """Labels repeat: a tenth is left."""
    response, content = ask(endpoint, Accept_Encoding="deflate, gzip;q=1.0")
    _, plain = ask(endpoint)

    assert response.headers["Content-Encoding"] == "gzip"
    assert len(content) < len(plain) / 4
    assert b"tfprobe_steps_total" in gzip.decompress(content)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/", 200, b'<a href="/metrics">'),
        ("/-/healthy", 200, b"healthy"),
        ("/metrics?name=1", 200, b"tfprobe_"),
        ("/metrics/", 404, b"nothing here"),
        ("/../etc/passwd", 404, b"nothing here"),
        ("/favicon.ico", 404, b"nothing here"),
    ],
)
def test_paths(endpoint, path: str, status: int, words: bytes):
    """Metrics, a page that links to them, whether it is there, and nothing else."""
    response, content = ask(endpoint, path)

    assert response.status == status
    assert words in content


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/nowhere"])
def test_head_answers_as_get_without_a_body(endpoint, path: str):
    """Status and headers are the same."""
    got, content = ask(endpoint, path)
    head, nothing = ask(endpoint, path, "HEAD")

    assert (head.status, nothing) == (got.status, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert len(content) > 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_are_refused(endpoint, method: str):
    """And told which are not."""
    response, content = ask(endpoint, method=method)

    assert (response.status, response.headers["Allow"]) == (405, "GET, HEAD")
    assert content == b"Use GET, HEAD.\n"


@pytest.mark.parametrize(
    "bytes_sent",
    [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"A" * 100_000, b""],
)
def test_whatever_a_client_sends_the_next_one_is_answered(endpoint, said, bytes_sent: bytes):
    """TLS on a port without it, half a request, an endless one, none."""
    with socket.create_connection(address(endpoint), PATIENCE_S) as client:
        try:
            client.sendall(bytes_sent)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass  # it was hung up on, which is an answer

    response, _ = ask(endpoint)
    assert response.status == 200
    assert said == []


@pytest.mark.slow
def test_many_clients_at_once_are_answered(endpoint):
    """From one look."""
    with ThreadPoolExecutor(MOST_CLIENTS // 2) as pool:
        answers = list(pool.map(lambda _: ask(endpoint)[0].status, range(MOST_CLIENTS // 2)))

    assert answers == [200] * (MOST_CLIENTS // 2)


@pytest.mark.slow
def test_a_client_that_never_reads_is_dropped(monkeypatch, endpoint, said):
    """It is given so long, then its place is free; nobody is told of it."""
    monkeypatch.setattr(server_module._Handler, "timeout", 0.2)
    idle = [socket.create_connection(address(endpoint)) for _ in range(MOST_CLIENTS)]

    def is_answered() -> bool:
        try:
            return ask(endpoint)[0].status == 200
        except (ConnectionError, http.client.HTTPException):
            return False  # no place yet

    pause = threading.Event()
    while not is_answered():
        pause.wait(0.05)

    assert said == []
    for each in idle:
        each.close()


def test_an_endpoint_that_waits_for_a_look_says_so(said):
    """503, which a server counts as a failed scrape."""

    def busy() -> MetricsAnswer:
        raise ExporterBusy("The files have not answered.", hint="Ask later.")

    endpoint = Endpoint("127.0.0.1", 0, busy, complain=said.append)
    endpoint.start()

    response, content = ask(endpoint)

    endpoint.stop()
    assert (response.status, content) == (503, b"The files have not answered. Ask later.\n")


def test_a_failure_of_ours_is_told_and_ends_nothing(said):
    """On stderr, with what it was."""

    def broken() -> MetricsAnswer:
        raise ZeroDivisionError("by zero")

    endpoint = Endpoint("127.0.0.1", 0, broken, complain=said.append)
    endpoint.start()

    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(endpoint)

    response, _ = ask(endpoint, "/-/healthy")
    endpoint.stop()
    assert response.status == 200
    assert said == ["A request failed: ZeroDivisionError: by zero"]


def test_a_port_in_use_says_how_to_choose_another(endpoint, said):
    """The status is that of a wrong command line."""
    with pytest.raises(UsageError, match=r"in use\. .*--port 0") as raised:
        Endpoint(*address(endpoint), Exporter(looks.fleet, limits=Limits()).answer, complain=print)

    assert raised.value.exit_code == 2


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_that_is_not_of_this_machine_is_told(host: str):
    """Before anything is served."""
    with pytest.raises(UsageError, match="cannot be served at"):
        Endpoint(host, 0, Exporter(looks.fleet, limits=Limits()).answer, complain=print)


def test_an_empty_address_is_not_every_address():
    """As of `--host "$HOST"`, where there is no such variable."""
    with pytest.raises(UsageError, match="--host is empty"):
        Endpoint("", 0, Exporter(looks.fleet, limits=Limits()).answer, complain=print)


def test_an_endpoint_of_ipv6_has_a_url_that_works():
    """With brackets."""
    exporter = Exporter(looks.fleet, limits=Limits())
    try:
        endpoint = Endpoint("::1", 0, exporter.answer, complain=print)
    except UsageError:
        pytest.skip("this machine has no IPv6")
    endpoint.start()

    response, _ = ask(endpoint)

    endpoint.stop()
    assert endpoint.url.startswith("http://[::1]:")
    assert response.status == 200


def test_no_thread_is_left(endpoint):
    """Of an endpoint that was stopped."""
    before = set(threading.enumerate())
    other = Endpoint("127.0.0.1", 0, Exporter(looks.fleet, limits=Limits()).answer, complain=print)
    other.start()
    ask(other)

    other.stop()

    left = {each for each in threading.enumerate() if each not in before}
    for each in left:
        each.join(PATIENCE_S)  # the one of the client, which has its answer
    assert not any(each.is_alive() for each in left)
