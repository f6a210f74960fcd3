"""What a trial measured stands in place of the bound, in the same words wherever findings are."""

from __future__ import annotations

import base64
import itertools
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.rundir import WrittenLoop, WrittenProcess, write_run
from tests.support.trials import TRIAL, WON, keep
from tfprobe.cli.main import main
from tfprobe.findings.fixes import chosen
from tfprobe.live.reports import MadeReport, Reports
from tfprobe.live.top.run_source import LiveSource
from tfprobe.live.watched_runs import Fleet
from tfprobe.recording import open_run
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import this_machine

SECOND_NS = 1_000_000_000
TEXT = "measured +82.5 % [77, 88] (reduce_retracing)"
COMMAND = "(tfprobe try tensors_for_numbers reduce_retracing)"
RATIOS = [0.825, 0.77, 0.88]


@pytest.fixture
def run(tmp_path: Path, monkeypatch) -> Path:
    """A run whose function is traced again and again, and a trial of its command."""
    monkeypatch.chdir(tmp_path)
    times_ns = [9 * SECOND_NS if at % 5 == 4 else SECOND_NS for at in range(30)]
    ends = list(itertools.accumulate(times_ns, initial=5 * SECOND_NS))
    steps = list(itertools.pairwise(ends))
    process = WrittenProcess(loops=[WrittenLoop(steps=steps, retraces=6)])
    write_run(tmp_path / "tfprobe-runs" / "r1", [process])
    won = replace(WON, fixes=(chosen("reduce_retracing"),))
    keep(replace(TRIAL, fixes=(won,), combined=None), tmp_path / "tfprobe-runs")
    return tmp_path / "tfprobe-runs" / "r1"


def _unwatched(_done: int, _all: int) -> None:
    """Show no progress."""


def _plain(text: str) -> str:
    return " ".join(text.replace("\\", "").split())


def _measured(found: dict[str, Any]) -> list[float]:
    (finding,) = [each for each in found["findings"] if each["rule"] == "retracing"]
    (measured,) = finding["measured"]
    low, high = (measured.get(name, measured.get(f"{name}_ratio")) for name in ("low", "high"))
    return [round(ratio, 9) for ratio in (measured["gain_ratio"], low, high)]


@pytest.mark.parametrize("words", [["advise"], ["report"]])
def test_a_terminal_shows_it(run, capsys, words) -> None:
    """And what tries the fixes."""
    assert main(words) == 0

    text = _plain(capsys.readouterr().out)
    assert TEXT in text
    assert COMMAND in text


@pytest.mark.parametrize("words", [["advise", "--md", "a.md"], ["report", "--md", "a.md"]])
def test_markdown_shows_it(run, words) -> None:
    """As the terminal does."""
    assert main(words) == 0

    text = _plain(Path("a.md").read_text())
    assert TEXT in text
    assert COMMAND in text


@pytest.mark.parametrize("words", [["advise"], ["report"], ["report", "--html", "a.html"]])
def test_json_has_it(run, capsys, words) -> None:
    """With or without the pages in a file."""
    assert main([*words, "--json"]) == 0

    assert _measured(json.loads(capsys.readouterr().out)) == RATIOS


def test_the_pages_in_a_file_show_it(run) -> None:
    """The same sentence as the terminal."""
    assert main(["report", "--html", "a.html"]) == 0

    (found,) = [each for each in _documents(Path("a.html")) if "unchecked" in each]
    (finding,) = [each for each in found["findings"] if each["rule"] == "retracing"]
    assert finding["gain_text"] == TEXT
    assert _plain("".join(part["text"] for part in finding["action"])).endswith(COMMAND)
    assert _measured(found) == RATIOS


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    recording = re.search(r'id="recording">(.*?)</script>', file.read_text(), re.DOTALL)
    assert recording is not None
    for document in json.loads(recording[1])["documents"]:
        if isinstance(document, str):
            document = json.loads(zlib.decompress(base64.b64decode(document)))
        yield document


def test_a_report_that_is_followed_shows_it(run) -> None:
    """Also a program that opens the run, and the tab of `top`."""
    here = this_machine()

    followed = Reports(RunFolder(run), here).next()
    shown = LiveSource(Fleet(run.parent, here), here).report(str(run), 400, _unwatched)

    assert isinstance(followed, MadeReport)
    (finding,) = [each for each in followed.advice.findings if each.rule == "retracing"]
    assert [one.fix for one in finding.measured] == ["reduce_retracing"]
    assert TEXT in _plain(re.sub(r"\x1b\[[\d;]*m", "", shown))
    assert _measured(open_run(run).report()) == RATIOS
