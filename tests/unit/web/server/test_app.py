"""What the server says: documents, or a status and a sentence that gives nothing away."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import pytest

from tests.support.asking import Browser
from tests.support.trials import TRIAL, TRIAL_ID, keep
from tests.unit.web.server.conftest import Served, write
from tfprobe.web import answers
from tfprobe.web.server.app import application


def test_the_runs_of_the_directory_are_told(browser):
    """By the names that their pages have."""
    assert [each["id"] for each in browser.get("/api/runs").json()["runs"]] == ["r1"]


def test_a_run_by_itself_is_a_directory_of_one(served, tmp_path):
    """`tfprobe ui RUN`."""
    browser = Served(tmp_path / "runs" / "r1").known()

    assert [each["id"] for each in browser.get("/api/runs").json()["runs"]] == ["r1"]
    assert browser.get("/api/run/r1/overview").status == 200
    assert browser.get("/api/run/runs/overview").status == 404


def test_the_trials_of_the_directory_are_told(browser, tmp_path):
    """One that is not there, or is damaged, is a sentence and no failure."""
    keep(TRIAL, tmp_path / "runs")
    keep("{", tmp_path / "runs", "20261122-000000-broken-cccccc")

    found = browser.get("/api/trials").json()

    assert [each["id"] for each in found["trials"]] == [TRIAL_ID]
    assert browser.get(f"/api/trials?trial={TRIAL_ID}").json()["id"] == TRIAL_ID
    for name in ("..%2f..", "20261122-000000-broken-cccccc"):
        answer = browser.get(f"/api/trials?trial={name}")
        assert answer.status == 200
        assert list(answer.json()) == ["missing"]


def test_a_run_by_itself_has_the_trials_of_its_command(served, tmp_path):
    """And of no other, which whoever serves one run does not show."""
    keep(TRIAL, tmp_path / "runs")
    other = replace(TRIAL, command=("python", "other.py"))
    keep(other, tmp_path / "runs", "20261121-000000-other-bbbbbb")

    browser = Served(tmp_path / "runs" / "r1").known()

    listed = browser.get("/api/trials").json()["trials"]
    assert [each["id"] for each in listed] == [TRIAL_ID]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        ".",
        "...",
        "%2e%2e",
        "..%2f..",
        "%2e%2e%2fsecret.txt",
        "..%5c..",
        "r1%2f..%2fr1",
        "r1%2f",
        "r1%00",
        "R1",
        "r1 ",
        "%2fetc",
        "~root",
        "*",
        "node7",
        "<script>alert(1)<%2fscript>",
        "%ff%fe",
        "\u202er1",
        "x" * 5000,
    ],
)
def test_only_what_a_listing_shows_is_a_run(browser, name):
    """No name leads anywhere else, and none comes back as markup."""
    answer = browser.get(f"/api/run/{name}/overview")

    assert answer.status == 404
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert "<" not in answer.text


@pytest.mark.parametrize("path", ["/nonsense", "/../secret.txt", "/static/main.js", "/%2e%2e/x"])
def test_no_file_is_served_but_the_pages(browser, path):
    """Nothing is looked up by a path of the request."""
    answer = browser.get(path)

    assert answer.status == 404
    assert answer.text == "There is nothing at this address.\n"


def test_a_hidden_run_is_none(served, browser):
    """One that is being removed, or half written."""
    write(served.directory / ".removing-r2")

    assert browser.get("/api/run/.removing-r2/overview").status == 404


def test_a_link_that_leads_out_is_no_run(served, browser, tmp_path):
    """The run that it leads to is not of this directory; it is not listed either."""
    write(tmp_path / "elsewhere" / "r2")
    os.symlink(tmp_path / "elsewhere" / "r2", served.directory / "r2")

    assert browser.get("/api/run/r2/overview").status == 404
    assert "r2" not in browser.get("/api/runs").text


def test_a_run_goes_by_the_name_of_its_directory(served, browser):
    """It may be a copy, or say that it is another run: whoever opens it gets what stands there."""
    shutil.copytree(served.directory / "r1", served.directory / "copy")

    listed = [each["id"] for each in browser.get("/api/runs").json()["runs"]]

    assert sorted(listed) == ["copy", "r1"]
    assert browser.get("/api/run/copy/header").json()["id"] == "copy"


def test_a_link_that_stays_is_a_run(served, browser):
    """`latest -> r1`."""
    os.symlink("r1", served.directory / "latest")

    assert browser.get("/api/run/latest/overview").status == 200


@pytest.mark.parametrize("part", ["captures/4.run_metadata.pb", "graphs/x.graph.pb", "code"])
def test_a_run_with_a_link_that_leads_out_is_not_read(served, browser, tmp_path, part):
    """Whoever may write a run would read files of whoever looks at it."""
    (process,) = served.directory.glob("r1/*/*/process.json")
    link = process.parent / part
    if link.is_dir():
        shutil.rmtree(link)
    os.symlink(tmp_path / "secret.txt", link)

    answer = browser.get("/api/run/r1/overview")

    assert answer.status == 422
    assert part in answer.json()["error"]
    assert "leads out" in answer.json()["error"]


def test_a_link_by_way_of_another_run_is_found(served, browser, tmp_path):
    """It leads into the directory, and from there out of it."""
    (served.directory / "way").mkdir()
    os.symlink(tmp_path, served.directory / "way" / "out")
    os.symlink("../way", served.directory / "r1" / "host")

    answer = browser.get("/api/run/r1/overview")

    assert answer.status == 422
    assert "host/out" in answer.json()["error"]


def test_links_in_a_circle_end(served, browser):
    """They stay in the run."""
    os.symlink(".", served.directory / "r1" / "again")

    assert browser.get("/api/run/r1/overview").status == 200


def test_a_run_that_vanishes_is_told(served, browser):
    """Removed while its page is open."""
    assert browser.get("/api/run/r1/overview").status == 200

    shutil.rmtree(served.directory / "r1")
    answer = browser.get("/api/run/r1/overview")

    assert answer.status == 404
    assert "may have been removed" in answer.json()["error"]


def test_a_directory_that_vanishes_has_no_runs(served, browser):
    """It may come back."""
    served.directory.rename(served.directory.with_name("moved"))

    assert browser.get("/api/run/r1/overview").status == 404
    served.directory.with_name("moved").rename(served.directory)
    assert browser.get("/api/run/r1/overview").status == 200


def test_a_corrupt_run_has_pages(served, browser):
    """What can be read of it is shown."""
    (steps,) = served.directory.glob("r1/*/*/steps.bin")
    steps.write_bytes(b"\xff" * 5000)
    (served.directory / "r1" / "run.json").write_text("{")

    assert browser.get("/api/run/r1/overview").status in (200, 404)
    assert browser.get("/api/runs").status == 200


def test_a_page_that_there_is_not(browser):
    """The sentence names those that there are."""
    answer = browser.get("/api/run/r1/nonsense")

    assert answer.status == 400
    assert "overview" in answer.json()["error"]


def test_a_failure_of_ours_tells_nothing(served, browser, monkeypatch):
    """The trace is for the terminal: it has paths in it, and may have more."""

    def fail(*_):
        raise RuntimeError("at /home/ada/secret")

    monkeypatch.setattr(answers, "ANSWERS", {"overview": fail})

    answer = browser.get("/api/run/r1/overview")

    assert answer.status == 500
    assert set(answer.json()) == {"error"}
    assert "/" not in answer.json()["error"]
    assert "RuntimeError: at /home/ada/secret" in "\n".join(served.complaints)
    assert browser.get("/api/runs").status == 200


def test_a_number_that_is_none_is_a_failure_of_ours(served, browser, monkeypatch):
    """JSON has no infinity; a page would not be told why."""
    monkeypatch.setattr(answers, "ANSWERS", {"overview": lambda *_: {"x": float("inf")}})

    assert browser.get("/api/run/r1/overview").status == 500


def test_hostile_names_come_as_they_are(served, browser, monkeypatch):
    """They are text in JSON, which pages show as text; half a character becomes a mark."""
    name = "</script><script>alert(1)</script>\u202e'\"\x00" + "x" * 1_000_000
    monkeypatch.setattr(answers, "ANSWERS", {"overview": lambda *_: {"a": name, "b": "\ud800"}})

    answer = browser.get("/api/run/r1/overview")

    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.content) == {"a": name, "b": "?"}


def test_a_browser_keeps_what_has_not_changed(browser):
    """A page that is loaded again costs a question."""
    tag = browser.get("/libraries.js").headers["etag"]

    answer = browser.get("/libraries.js", if_none_match=tag)

    assert (answer.status, answer.content) == (304, b"")


def test_head_is_get_without_its_content(browser):
    """For programs that ask whether somebody is there."""
    assert (browser.ask("HEAD", "/", {}).status, browser.ask("HEAD", "/", {}).content) == (200, b"")


def test_the_pages_are_there_for_tests_without_a_guard(served):
    """Whoever asks."""
    browser = Browser(application(served.directory))

    assert browser.get("/api/runs").status == 200


def test_a_run_that_holds_no_answer_says_so(browser):
    """That is an answer: any other status would be a failure to a browser."""
    answer = browser.get("/api/run/r1/timeline-slice?slice=r17")

    assert answer.status == 200
    assert list(answer.json()) == ["missing"]
