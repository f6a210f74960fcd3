"""The `tfprof>` shell as a person sees it: with the line editor of its extra, and without it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.process.launching import ROOT, environment
from tests.support.pseudo_terminal import PseudoTerminal
from tfprobe.formats.schema import message_class

pytestmark = pytest.mark.slow
SENTENCE = "pip install 'tfprobe[shell]'"


@pytest.fixture
def shell(tmp_path: Path):
    """Start the shell on a graph of one op, with what PYTHONPATH finds first."""
    graph = message_class("tfprobe.graph.GraphDef")()
    graph.node.add(name="weights", op="VariableV2")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    command = [sys.executable, "-m", "tfprobe", "tfprof", f"--graph_path={path}"]

    def start(*first: Path) -> PseudoTerminal:
        places = ":".join(map(str, (*first, ROOT)))
        variables = environment({"PYTHONPATH": places, "HOME": str(tmp_path)})
        return PseudoTerminal(command, env=variables, columns=160)

    return start


def test_lines_are_edited_and_remembered(shell, tmp_path: Path) -> None:
    """In a file below the user's home."""
    with shell() as terminal:
        terminal.wait_for("tfprof>")
        terminal.press("help\r")
        terminal.wait_for("leave with Ctrl-D")
        terminal.press("exit\r")

        assert terminal.wait_for_end() == 0
        assert not any(SENTENCE in line for line in terminal.shown)
    assert "+help" in (tmp_path / ".local/state/tfprobe/tfprof_history").read_text()


def test_without_the_extra_lines_are_plain_and_a_sentence_says_why(shell, tmp_path: Path) -> None:
    """It answers all the same; an interrupt starts a new line, Ctrl-D leaves."""
    shadow = tmp_path / "shadow" / "prompt_toolkit"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise ImportError('none here')")

    with shell(shadow.parent) as terminal:
        terminal.wait_for(SENTENCE)
        terminal.wait_for("tfprof>")
        terminal.press("help\r")
        terminal.wait_for("leave with Ctrl-D")
        terminal.wait_for(lambda lines: lines.count("tfprof>") == 1)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for(lambda lines: lines.count("tfprof>") == 2)
        terminal.press("\x04")

        assert terminal.wait_for_end() == 0
        assert sum(SENTENCE in line for line in terminal.shown) == 1
