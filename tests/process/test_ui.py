"""`tfprobe ui` beside real jobs: its address, its events, what vanishes, and how it ends."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.process.launching import PATIENCE_S, Launcher, environment
from tests.support.agent import Laboratory

# As many steps as each line says.
JOB = """
for line in sys.stdin:
    for _ in range(int(line)):
        session.run("loss")
    print("done", flush=True)
"""


@dataclass
class Served:
    """A running `tfprobe ui`, and the cookie that it gave for its token."""

    process: subprocess.Popen[str]
    port: int
    token: str
    cookie: str = ""

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def ask(self, method: str, path: str, content: object = None) -> tuple[int, Any]:
        """Return the status and the document."""
        with closing(self.connection()) as connection:
            headers = {"Cookie": self.cookie, "Origin": f"http://127.0.0.1:{self.port}"}
            body = None if content is None else json.dumps(content)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            self.cookie = self.cookie or (answer.getheader("Set-Cookie") or "").split(";")[0]
            text = answer.read()
            return answer.status, json.loads(text) if text else None

    def events(self) -> Iterator[tuple[str, Any]]:
        """Give events as they come, until the stream ends."""
        connection = self.connection()
        try:
            connection.request("GET", "/api/events", headers={"Cookie": self.cookie})
            answer = connection.getresponse()
            assert answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"
            name = ""
            for line in answer:
                key, _, value = line.decode().rstrip("\n").partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    yield name, json.loads(value)
        finally:
            connection.close()


class Site:
    """Where servers are started; all are ended."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str | Path, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self.launcher.program, "ui", *arguments],
            env=environment(variables),
            cwd=self.launcher.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def serve(self, *arguments: str | Path) -> Served:
        process = self.start(*arguments, "--port", "0")
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#token=([\w-]{43})\n", line)
        assert match, process.communicate()
        served = Served(process, int(match[1]), match[2])
        assert served.ask("POST", "/api/session", {"token": served.token}) == (204, None)
        return served


@pytest.fixture
def site(launcher: Launcher) -> Iterator[Site]:
    launcher.output.mkdir()
    found = Site(launcher)
    yield found
    for process in found.started:
        process.kill()
        process.communicate()


@pytest.fixture
def laboratory(launcher: Launcher) -> Laboratory:
    launcher.output.mkdir(exist_ok=True)
    return Laboratory(launcher.output).arm(every=5)


@pytest.fixture
def job(laboratory: Laboratory) -> Iterator[subprocess.Popen[bytes]]:
    process = laboratory.start(JOB)
    yield process
    process.kill()
    process.communicate()


def step(job: subprocess.Popen[bytes], count: int) -> None:
    assert job.stdin is not None
    assert job.stdout is not None
    job.stdin.write(f"{count}\n".encode())
    job.stdin.flush()
    assert job.stdout.readline() == b"done\n"


@pytest.mark.slow
def test_a_page_hears_of_each_new_capture(site, laboratory, job) -> None:
    """Of a job that runs; what is asked for then is of the newest."""
    step(job, 1)
    served = site.serve(laboratory.folder)
    events = served.events()
    name, first = next(events)

    step(job, 10)
    news = next(word for _, word in events if word["run"]["captures"] >= 2)

    status, overview = served.ask("GET", "/api/run/run/overview")
    assert (name, first["run"]["state"]) == ("all", "running")
    assert news["run"]["steps"] == 11
    assert (status, overview["run"]["state"]) == (200, "running")
    events.close()


@pytest.mark.slow
def test_a_job_is_asked_for_samples_and_takes_them(site, laboratory, job) -> None:
    """The answer says who takes them, and the captures are news."""
    step(job, 1)
    served = site.serve(laboratory.folder)
    events = served.events()
    _, first = next(events)

    with ThreadPoolExecutor() as threads:
        asked = threads.submit(served.ask, "POST", "/api/run/run/sample", {"steps": 3})
        while not asked.done():
            step(job, 1)
    status, told = asked.result()
    step(job, 3)
    news = next(word for _, word in events if word["run"]["captures"] > first["run"]["captures"])

    assert status == 200
    assert [each["answer"] for each in told["processes"]] == ["taken"]
    assert news["run"]["captures"] >= first["run"]["captures"] + 3
    events.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_quietly_while_pages_listen(site, number) -> None:
    """Streams that are open end with it, at once; the status is 0."""
    served = site.serve(site.launcher.output)
    streams = [served.events() for _ in range(3)]
    for stream in streams:
        assert next(stream) == ("all", {})

    served.process.send_signal(number)
    _, said = served.process.communicate(timeout=PATIENCE_S)

    assert served.process.returncode == 0
    assert [line for line in said.splitlines() if "ssh -L" not in line] == []
    assert [list(stream) for stream in streams] == [[], [], []]


@pytest.mark.slow
def test_a_run_that_is_removed_while_it_is_open(site, laboratory, job) -> None:
    """Its page is told so in a sentence, and the list goes on without it."""
    step(job, 10)
    job.communicate()
    served = site.serve(laboratory.folder)
    events = served.events()
    next(events)
    before = served.ask("GET", "/api/run/run/overview")

    shutil.rmtree(laboratory.run)

    status, told = served.ask("GET", "/api/run/run/overview")
    assert before[0] == 200
    assert status == 404
    assert "may have been removed" in told["error"]
    assert next(word for _, word in events if "run" in word) == {"run": None}
    assert served.ask("GET", "/api/runs")[1]["runs"] == []
    events.close()


def test_a_port_in_use_is_one_paragraph(site) -> None:
    """It says what to do, and the status is that of a wrong command line."""
    served = site.serve(site.launcher.output)

    ended = site.launcher.tfprobe("ui", site.launcher.output, "--port", str(served.port))

    assert (ended.status, ended.stdout) == (2, b"")
    assert f"cannot be served at 127.0.0.1:{served.port}: " in ended.stderr.decode()
    assert ended.stderr.count(b"\n") == 1


def test_without_a_port_the_next_free_one_is_taken(site) -> None:
    """Two people of one machine need not agree on one."""
    processes = [site.start(site.launcher.output) for _ in range(2)]
    lines = [process.stdout.readline() for process in processes]

    ports = [int(line.split(":")[2].split("/")[0]) for line in lines]

    assert len(set(ports)) == 2
    assert all(8470 <= port < 8520 for port in ports)


def test_it_listens_on_this_machine_alone(site) -> None:
    """Whoever else is on the network finds nothing, and the token is never on a command line."""
    served = site.serve(site.launcher.output)
    arguments = Path(f"/proc/{served.process.pid}/cmdline").read_bytes().decode()

    with socket.socket() as other:
        other.settimeout(PATIENCE_S)
        refused = other.connect_ex(("127.0.0.2", served.port))

    assert refused != 0
    assert served.token not in arguments
    assert served.token not in Path(f"/proc/{served.process.pid}/environ").read_text()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\xff\xfe nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET http://evil.example/api/runs HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ],
    ids=["garbage", "no-host", "two-hosts", "endless-header", "proxy", "connect", "websocket"],
)
def test_what_is_no_request_ends_nothing(site, request_bytes) -> None:
    """It is refused, nothing is said of it on the terminal, and others are answered."""
    served = site.serve(site.launcher.output)

    with socket.create_connection(("127.0.0.1", served.port), PATIENCE_S) as client:
        client.sendall(request_bytes)
        answer = client.recv(65536)

    assert re.match(rb"HTTP/1\.1 4\d\d ", answer)
    assert b"Traceback" not in answer
    assert served.ask("GET", "/api/runs")[0] == 200
    served.process.terminate()
    _, said = served.process.communicate(timeout=PATIENCE_S)
    assert [line for line in said.splitlines() if "ssh -L" not in line] == []


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("no/such/directory",), 3, b"neither a run directory nor a run"),
        ((".", "--port", "70000"), 2, b"70000"),
        ((".", "--host", "no.such.host.invalid"), 2, b"cannot be served at"),
        ((".", "--host", ""), 2, b"--host is empty"),
        ((".", "--host", "192.0.2.1"), 2, b"Name an address of this machine"),
    ],
)
def test_mistakes_are_told(site, words, status, told) -> None:
    """One paragraph each, and nothing is served."""
    ended = site.launcher.tfprobe("ui", *words)

    assert (ended.status, ended.stdout) == (status, b"")
    assert told in ended.stderr
    assert ended.stderr.count(b"\n") == 1


def test_beyond_this_machine_it_says_what_that_means(site) -> None:
    """Before anybody uses it."""
    process = site.start(site.launcher.output, "--host", "0.0.0.0", "--port", "0")

    line = process.stdout.readline()

    process.terminate()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#token=[\w-]+\n", line)
    assert "without encryption" in said
    assert process.returncode == 0


def test_a_tunnel_is_told_of_where_there_is_no_screen(site) -> None:
    """As in a session of ssh."""
    process = site.start(
        site.launcher.output, "--port", "0", SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22"
    )

    port = process.stdout.readline().split(":")[2].split("/")[0]
    hint = process.stderr.readline()

    assert f"`ssh -L {port}:127.0.0.1:{port} " in hint
