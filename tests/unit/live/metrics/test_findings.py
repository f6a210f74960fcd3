"""Findings are asked of a program, seldom, one run at a time; nobody waits for them."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import looks
from tfprobe.errors import Missing
from tfprobe.findings.finding import Finding, Severity
from tfprobe.live.metrics import findings as findings_module
from tfprobe.live.metrics.family import Exposed
from tfprobe.live.metrics.findings import FAILURES, TIMES, Findings
from tfprobe.live.metrics.subjects import Limits, RunSubject, subjects
from tfprobe.report.documents.findings_document import finding_document

# Says which run it is asked about, and how important it is to the machine.
ADVICE = """
import json, os, sys
with open(os.environ["ASKED"], "a") as file:
    file.write(f"{sys.argv[-1]} {os.nice(0)}\\n")
one = {"rule": "input_bound", "severity": "warning"}
print(json.dumps({"findings": [one, one, {"rule": "retracing", "severity": "info"}]}))
"""
Start = Callable[..., Findings]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASKED", str(tmp_path / "asked"))
    return tmp_path / "asked"


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start to ask a script, and stop in the end."""
    monkeypatch.setattr(findings_module, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(findings_module, "CORE_RATIO", 1.0)
    started: list[Findings] = []

    def begin(script: str) -> Findings:
        found = Findings((sys.executable, "-I", "-c", script))
        started.append(found)
        found.start()
        return found

    yield begin
    for each in started:
        each.stop()


def runs(*names: str, captures: int = 3) -> tuple[RunSubject, ...]:
    found = [looks.run([looks.process(captures=captures)], directory=f"/runs/{name}", id=name)
             for name in names]  # fmt: skip
    return subjects(looks.fleet(*found), Limits(), {}).runs


def told(found: Findings, *those: RunSubject) -> dict[str, Exposed]:
    return {each.family.name: each for each in found.exposed(those)}


def wait_until(holds: Callable[[], bool]) -> None:
    pause = threading.Event()
    # They are looked for at the lowest priority: beside busy processes that takes long.
    deadline_s = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < deadline_s, "in vain"
        pause.wait(0.02)


def advised(found: Findings, *those: RunSubject) -> dict[str, Exposed]:
    wait_until(lambda: len(told(found, *those)[TIMES.name].series) == len(those))
    return told(found, *those)


def failures(found: Findings, *those: RunSubject) -> object:
    (series,) = told(found, *those)[FAILURES.name].series
    return series.value


def test_findings_are_counted_by_rule_and_severity(start, asked):
    """Of each run, with the time of the answer."""
    exposed = advised(start(ADVICE), *runs("a"))

    counts = {each.labels: each.value for each in exposed["tfprobe_findings"].series}
    (moment,) = exposed[TIMES.name].series
    assert counts == {("a", "input_bound", "warning"): 2, ("a", "retracing", "info"): 1}
    assert abs(moment.value - time.time()) < 600


def test_it_is_asked_at_the_lowest_priority(start, asked):
    """A job on this machine comes first."""
    advised(start(ADVICE), *runs("a"))

    assert asked.read_text() == "/runs/a 19\n"


def test_a_run_is_asked_about_once_while_nothing_is_new(start, asked, monkeypatch):
    """And every run is, one after the other."""
    monkeypatch.setattr(findings_module, "SHORTEST_BETWEEN_S", 0.0)
    found = start(ADVICE)
    advised(found, *runs("a"))
    advised(found, *runs("a", "b"))

    assert [line.split()[0] for line in asked.read_text().splitlines()] == ["/runs/a", "/runs/b"]


def test_a_run_with_new_captures_is_asked_about_again_after_some_time(start, asked, monkeypatch):
    """Not with each of them."""
    found = start(ADVICE)
    first = advised(found, *runs("a"))[TIMES.name].series[0].value
    monkeypatch.setattr(findings_module, "SHORTEST_BETWEEN_S", 0.0)

    more = runs("a", captures=4)
    wait_until(lambda: told(found, *more)[TIMES.name].series[0].value != first)

    assert len(asked.read_text().splitlines()) == 2


def test_a_run_without_captures_is_not_asked_about(start, asked):
    """There is nothing to go by."""
    found = start(ADVICE)
    told(found, *runs("empty", captures=0))

    advised(found, *runs("a"))

    assert "empty" not in asked.read_text()


@pytest.mark.parametrize(
    "script",
    [
        "raise SystemExit(1)",
        "print('no JSON')",
        "print('[1]')",
        "print('{}')",
        "print('{\"findings\": [1]}')",
        "import os; os.abort()",
    ],
)
def test_advice_that_fails_is_counted(start, script: str):
    """Whatever it prints; there are no findings then, and not none."""
    found = start(script)
    those = runs("a")

    wait_until(lambda: failures(found, *those) == 1)

    assert told(found, *those)[TIMES.name].series == ()


def test_advice_that_takes_too_long_is_ended(start, monkeypatch):
    """A run may have hung file systems, and captures without end."""
    monkeypatch.setattr(findings_module, "LONGEST_WALL_S", 0.05)
    found = start("import time; time.sleep(600)")
    those = runs("a")

    wait_until(lambda: failures(found, *those) == 1)


def test_a_program_that_is_not_there_is_counted():
    """The endpoint goes on."""
    found = Findings(("/no/such/program",))
    those = runs("a")
    told(found, *those)

    found._note("/runs/a", found._advice("/runs/a"))

    assert failures(found, *those) == 1


def test_a_run_of_too_many_bytes_is_not_asked_about(monkeypatch, tmp_path):
    """Advice would need as much memory."""
    monkeypatch.setattr(findings_module, "MOST_CAPTURE_BYTES", 10)
    captures = tmp_path / "node7" / "4711-1" / "captures"
    captures.mkdir(parents=True)
    (captures.parent / "process.json").write_text("{}")
    (captures / "000001-fit-0.xplane.pb").write_bytes(b"x" * 11)

    said = Findings((sys.executable, "-c", ADVICE))._advice(str(tmp_path))

    assert said is None


def test_stopping_ends_what_is_being_asked(tmp_path, monkeypatch):
    """And leaves neither a thread nor a process."""
    monkeypatch.setattr(findings_module, "_PATIENCE_S", 0.01)
    note = tmp_path / "pid"
    script = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    found = Findings((sys.executable, "-I", "-c", script, str(note)))
    found.start()
    told(found, *runs("a"))
    wait_until(lambda: note.exists() and note.read_text() != "")

    found.stop()

    assert not any(each.name == "findings" for each in threading.enumerate())
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_the_document_is_that_of_tfprobe_advise(start):
    """The keys that are read here are those that `tfprobe advise --json` writes."""
    one = Finding("t", Severity.CRITICAL, (), "do", Missing("none"), rule="host_sync")
    found = start(f"print({json.dumps({'findings': [finding_document(one)]})!r})")

    exposed = advised(found, *runs("a"))

    assert exposed["tfprobe_findings"].series[0].labels == ("a", "host_sync", "critical")
