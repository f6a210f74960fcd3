"""`tfprobe top` in a real terminal on real processes: rows, keys, samples, and how it is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.launching import ROOT, environment
from tests.support.agent import Laboratory
from tests.support.pseudo_terminal import PseudoTerminal

pytestmark = pytest.mark.slow
PATIENCE_S = 60.0
# Foreground and background, but for the terminal's own.
COLOUR = re.compile(rb"3[0-8]|4[0-8]|9[0-7]|10[0-7]")
TOP = [sys.executable, "-m", "tfprobe", "top"]
ENVIRONMENT = environment({"PYTHONPATH": str(ROOT)})
# Steps as those of a small model, until its stdin is closed.
JOB = """
import select
def step():
    time.sleep(0.005)
    return 1
while not select.select([sys.stdin], [], [], 0)[0]:
    session.run(step)
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A job that runs, and the directory of its run."""
    (tmp_path / "runs").mkdir()
    laboratory = Laboratory(tmp_path / "runs").arm()
    process = laboratory.start(JOB)
    try:
        yield laboratory.run, process
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def captures(run: Path) -> int:
    """How many captures are on disk."""
    return len([each for each in run.glob("*/*/captures/*") if not each.name.startswith(".")])


def once(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command without a terminal."""
    return subprocess.run(
        [*TOP, *map(str, arguments)],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def wait_for_steps(run: Path) -> None:
    """Wait until the job has made steps."""
    until_s = time.monotonic() + PATIENCE_S
    while "running" not in once(run).stdout:
        assert time.monotonic() < until_s


def test_a_person_watches_asks_for_samples_and_leaves(job) -> None:
    """The row is there, `t` has the job record steps, `q` leaves the terminal as it was."""
    run, _ = job
    with PseudoTerminal([*TOP, str(run.parent)], env=ENVIRONMENT) as terminal:
        terminal.wait_for("● running")
        before = captures(run)
        terminal.press("t")
        terminal.wait_for("Trace how many steps")
        terminal.press("\r")
        terminal.wait_for("Tracing the next 5 steps")
        terminal.wait_for(lambda _: captures(run) >= before + 5)
        terminal.press("q")

        assert terminal.wait_for_end() == 0
        assert terminal.is_restored()


def test_the_page_follows_the_size_of_the_terminal(job) -> None:
    """Made smaller, it shows fewer columns; made larger again, more."""
    run, _ = job
    with PseudoTerminal([*TOP, str(run)], env=ENVIRONMENT, columns=140) as terminal:
        terminal.wait_for("memory")
        terminal.resize(60, 20)
        # The terminal itself cuts lines on the right and drops them at the top: this is the page's.
        terminal.wait_for(lambda lines: lines[1].startswith("run ") and "memory" not in lines[1])
        terminal.resize(140, 30)
        terminal.wait_for("memory")


def test_headings_that_a_terminal_has_lost_come_back(job) -> None:
    """Whatever cut or overwrote them, they are there again at the next look."""
    run, _ = job
    with PseudoTerminal([*TOP, str(run)], env=ENVIRONMENT, columns=140) as terminal:
        seen = terminal.wait_for(lambda lines: "memory" in lines[1])
        terminal.wait_for(lambda lines: lines[0] != seen[0])
        terminal.lose()
        terminal.wait_for("memory")


def test_without_colour_marks_and_words_are_left(job) -> None:
    """NO_COLOR is heeded: no code of a colour is written, and the state is told all the same."""
    run, _ = job
    with PseudoTerminal([*TOP, str(run)], env={**ENVIRONMENT, "NO_COLOR": "1"}) as terminal:
        terminal.wait_for("● running")

        codes = re.findall(rb"\x1b\[([0-9;]*)m", terminal.written)
        told = {code for each in codes for code in each.split(b";")}
        assert {code for code in told if COLOUR.fullmatch(code)} == set()


def test_a_stopped_job_is_shown_as_stopped(job) -> None:
    """By SIGSTOP; it runs again after SIGCONT."""
    run, process = job
    with PseudoTerminal([*TOP, str(run)], env=ENVIRONMENT) as terminal:
        terminal.wait_for("● running")
        process.send_signal(signal.SIGSTOP)
        terminal.wait_for("‖ stopped")
        process.send_signal(signal.SIGCONT)
        terminal.wait_for("● running")


def test_a_run_that_is_removed_goes_away_with_a_word(job) -> None:
    """While its process is open on the page, too."""
    run, process = job
    with PseudoTerminal([*TOP, str(run.parent)], env=ENVIRONMENT) as terminal:
        terminal.wait_for("● running")
        terminal.press("\r")
        terminal.wait_for("1 loops")
        process.kill()
        process.wait()
        run.rename(run.parent.parent / "elsewhere")
        terminal.wait_for("its directory was removed")
        terminal.wait_for("There is no run in")
        os.rename(run.parent.parent / "elsewhere", run)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_terminal_is_restored_after_a_signal(job, how) -> None:
    """Whoever ends the page from outside finds the terminal as it was."""
    run, _ = job
    with PseudoTerminal([*TOP, str(run)], env=ENVIRONMENT) as terminal:
        terminal.wait_for("● running")
        terminal.process.send_signal(how)

        assert terminal.wait_for_end() == 128 + how
        assert terminal.is_restored()


@pytest.mark.parametrize("command", [["top"], ["report", "--follow"]])
def test_a_page_ends_with_its_terminal(job, command) -> None:
    """Also where a shell that heeds no hang-up stands between the two: nothing is left behind."""
    run, _ = job
    page = [sys.executable, "-m", "tfprobe", *command, str(run)]
    shell = ["bash", "-c", "trap '' HUP; exec 3<&0; \"$@\" <&3 & echo pid $!; wait", "bash", *page]
    with PseudoTerminal(shell, env=ENVIRONMENT) as terminal:
        terminal.wait_for("running")
        pid = int(re.search(rb"pid (\d+)", terminal.written)[1])
        terminal.process.kill()

    until_s = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until_s
        time.sleep(0.1)


def test_without_a_terminal_one_table_is_printed(job) -> None:
    """A pipe gets what the page would show, once, without codes."""
    run, _ = job
    wait_for_steps(run)

    ended = once(run.parent)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "steps/s" in ended.stdout
    assert "● running" in ended.stdout
    assert "\x1b" not in ended.stdout


def test_json_is_one_document(job) -> None:
    """With a schema, for whoever watches by program."""
    run, _ = job
    wait_for_steps(run)

    ended = once(run, "--json")

    document = json.loads(ended.stdout)
    assert document["schema"] == "tfprobe.top/1"
    assert document["runs"][0]["processes"][0]["state"] == "running"


def test_where_there_is_no_run_the_status_is_1(tmp_path: Path) -> None:
    """And one paragraph says what to do."""
    ended = once(tmp_path)

    assert ended.returncode == 1
    assert "There is no run in" in ended.stderr
    assert ended.stdout == ""


def test_a_place_that_is_none_is_an_error(tmp_path: Path) -> None:
    """A mistyped run is not a page that stays empty."""
    ended = once("no-such-run", "-o", tmp_path)

    assert ended.returncode == 3
    assert "no-such-run" in ended.stderr
