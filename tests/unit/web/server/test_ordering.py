"""A page may ask a running job for samples, and for nothing else."""

from __future__ import annotations

import os

import pytest

from tfprobe.web.server import app


@pytest.fixture(autouse=True)
def _nobody_waits(monkeypatch):
    monkeypatch.setattr(app, "PATIENCE_S", 0.0)


def sample(browser, content, run="r1"):
    return browser.post(f"/api/run/{run}/sample", content)


def test_it_is_told_who_answered(browser):
    """A process that has ended says so."""
    answer = sample(browser, {"steps": 3})

    (process,) = answer.json()["processes"]
    assert answer.status == 200
    assert answer.json()["steps"] == 3
    assert process["answer"] in ("ended", "no answer")
    assert process["captures"] == []


@pytest.mark.parametrize(
    "content",
    [{"steps": 0}, {"steps": -1}, {"steps": 10**9}, {"steps": "5"}, {"steps": True}, {"steps": 1.5},
     {"steps": None}, [], b"{", b""],
)  # fmt: skip
def test_what_is_no_number_of_steps_is_told(browser, content):
    """And nothing is ordered."""
    answer = sample(browser, content)

    assert answer.status == 400
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("run", ["nonsense", "..", "%2e%2e%2fr1"])
def test_only_runs_of_the_directory_are_asked(browser, run):
    """No name leads anywhere else."""
    assert sample(browser, {"steps": 1}, run).status == 404


def test_no_order_is_written_through_a_link(served, browser, tmp_path):
    """Control words would be written into a file that only its owner may write."""
    (steps,) = served.directory.glob("r1/*/*/steps.bin")
    target = tmp_path / "target.bin"
    steps.rename(target)
    os.symlink(target, steps)
    before = target.read_bytes()

    answer = sample(browser, {"steps": 1})

    assert answer.status == 422
    assert target.read_bytes() == before


@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"cookie": "x=y"}])
def test_nobody_else_may_order(browser, headers):
    """Neither another site nor who has no cookie."""
    answer = browser.post("/api/run/r1/sample", {"steps": 1}, **headers)

    assert answer.status in (401, 403)


def test_it_is_no_document(browser):
    """Reading orders nothing, so that no link or picture does."""
    assert browser.get("/api/run/r1/sample").status in (400, 405)
