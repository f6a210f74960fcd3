"""A server of made-up runs, and a browser that it knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.asking import Answer, Browser
from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import WrittenLoop, WrittenProcess, regular_steps, write_run
from tfprobe.web.server.app import Pages
from tfprobe.web.server.auth import Keys
from tfprobe.web.server.hosts import hosts_of

ORIGIN = "http://127.0.0.1:8470"


@dataclass
class Served:
    """A server of the runs in a directory, and what it complained of."""

    directory: Path
    host: str = "127.0.0.1"
    keys: Keys = field(default_factory=Keys)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        hosts = hosts_of(self.host, machine="Node7.example.org")
        pages = Pages(self.directory, complain=self.complaints.append)
        self.app = pages.guarded(keys=self.keys, hosts=hosts)

    def stranger(self, origin: str = ORIGIN) -> Browser:
        """A browser that has no cookie."""
        return Browser(self.app, origin)

    def known(self) -> Browser:
        """A browser that has exchanged the token."""
        browser = self.stranger()
        assert exchange(browser, self.keys.token).status == 204
        return browser


def exchange(browser: Browser, token: object) -> Answer:
    """Post a token as the page does."""
    return browser.post("/api/session", {"token": token})


def write(root: Path) -> Path:
    """Write a run with one capture."""
    process = WrittenProcess(
        loops=[WrittenLoop(steps=regular_steps(10), sampled=[3])],
        events=[{"kind": "sample", "work": 0, "step": 3, "capture": "3.run_metadata.pb"}],
        captures={"3.run_metadata.pb": run_metadata({CPU: [Node("a", 10, 20)]})},
    )
    return write_run(root, [process])


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """A directory with one run, r1, beside a file that is nobody's business."""
    write(tmp_path / "runs" / "r1")
    (tmp_path / "secret.txt").write_text("secret")
    return Served(tmp_path / "runs")


@pytest.fixture
def browser(served: Served) -> Browser:
    """A browser that the server knows."""
    return served.known()
