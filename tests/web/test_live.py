"""Pages of a job that runs: they follow it, ask it for samples, and miss a server that has gone."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent import PATIENCE_S, Laboratory
from tests.web.recordings import ROOT
from tests.web.visiting import Visitor

# As many steps as each line says.
JOB = """
for line in sys.stdin:
    for _ in range(int(line)):
        session.run("loss")
    print("done", flush=True)
"""


class Job:
    """A recorded job that steps when it is told to."""

    def __init__(self, laboratory: Laboratory) -> None:
        self.run = laboratory.run
        self.process = laboratory.start(JOB)
        self.step(1)

    def step(self, count: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{count}\n".encode())
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    def end(self) -> None:
        self.process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "runs").mkdir()
    found = Job(Laboratory(tmp_path / "runs").arm(every=5))
    yield found
    found.process.kill()
    found.process.communicate()


@pytest.fixture
def server(job: Job) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tfprobe", "ui", job.run.parent, "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def window(browser: Any, server: subprocess.Popen[str]) -> Iterator[Visitor]:
    assert server.stdout is not None
    visitor = Visitor(
        browser, server.stdout.readline().strip(), viewport={"width": 1280, "height": 800}
    )
    yield visitor
    visitor.close()
    assert visitor.unexpected() == []


def test_the_list_follows_its_runs(window, job) -> None:
    """Steps that are made while somebody looks, and the end; the address is as it was."""
    page = window.page
    page.wait_for_selector("td:text-is('1')")

    job.step(41)
    page.wait_for_selector("td:text-is('42')")
    assert "live" in page.inner_text(".live-text")
    job.end()

    page.wait_for_selector(".badge-finished")
    assert re.fullmatch(r"#/(\?.*)?", page.evaluate("location.hash"))


def test_a_page_follows_its_run(window, job) -> None:
    """At its end it says so, and nothing more is asked of the job."""
    page = window.show("run", "overview")
    page.wait_for_selector(".head .badge-running")
    assert page.is_visible("text=Record steps")

    job.step(100)
    job.end()

    page.wait_for_selector(".head .badge-finished")
    page.wait_for_selector("text=Record steps", state="hidden")
    page.wait_for_selector(".live-text", state="hidden")


def test_a_job_is_asked_for_samples(window, job) -> None:
    """With the keyboard alone; who takes them is said aloud."""
    page = window.show("run", "overview")
    before = captures(job.run)
    button = page.get_by_role("button", name="Record steps")
    button.wait_for()
    page.bring_to_front()  # the keys go to the window that is in front
    button.press("Enter")
    page.get_by_label("How many").fill("3")
    page.keyboard.press("Enter")
    page.wait_for_selector(".record-told:has-text('Requested.')")

    while not page.is_visible(".record-told:has-text('Recording the next 3 steps: pid')"):
        job.step(1)
    job.step(3)

    assert page.get_attribute(".record-told", "role") == "status"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.textContent") == "Record steps"
    assert captures(job.run) >= before + 3


def test_a_run_that_is_removed_is_told(window, job) -> None:
    """In the place of its page, which was open."""
    window.expected.append("/api/run/run/")
    page = window.show("run", "overview")

    job.end()
    shutil.rmtree(job.run)

    page.wait_for_selector(".head .badge-removed")
    page.wait_for_selector(".trouble:has-text('may have been removed')")


def test_a_server_that_ends_is_missed(window, server) -> None:
    """The page stays, and says that nothing new will come."""
    window.expected += ["/api/events", "ERR_CONNECTION_REFUSED"]
    page = window.page

    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE_S) == 0

    page.wait_for_selector(".live[data-mode=lost]:has-text('the server is gone')")
    assert page.is_visible("main table")


def test_the_token_leaves_the_address(window, browser) -> None:
    """And is asked for where there is no cookie; the address that was opened is shown then."""
    page, token = window.page, window.token
    assert token not in page.url
    stranger = browser.new_context()
    other = stranger.new_page()
    other.goto(f"{page.url.split('#')[0]}#/run/run/overview")

    other.wait_for_selector("form.session")
    assert other.is_hidden(".live-text")
    other.get_by_label("Token").fill("wrong")
    other.keyboard.press("Enter")
    other.wait_for_selector("text=This is not the token")
    other.get_by_label("Token").fill(token)
    other.keyboard.press("Enter")

    other.wait_for_selector(".page-overview")
    assert other.url.endswith("#/run/run/overview")
    assert other.evaluate("document.cookie") == ""
    stranger.close()


def captures(run: Path) -> int:
    """How many captures are on disk."""
    return len([each for each in run.glob("*/*/captures/*") if not each.name.startswith(".")])
