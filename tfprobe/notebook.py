"""`%tfprobe` in a notebook: run a command of tfprobe in a process of its own, and show its answer.

Runs in the job's kernel, which may be of another environment: Python 3.8, the standard library, and
nothing of tfprobe. What reads recordings is imported in the other process only.
"""

from __future__ import annotations

import html
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# The kernel's directory, which `-c` puts first, may have modules of any name.
_PROGRAM = (
    "import sys; sys.path[:] = [entry for entry in sys.path if entry]; "
    "from tfprobe.cli.main import main; sys.exit(main())"
)
# Fits the output of a cell.
_COLUMNS = "100"
# Commands that a cell cannot run, and why.
_ELSEWHERE = {
    "run": "starts a job",
    "tfprof": "is a shell",
    "top": "needs a terminal",
    "trace": "waits for the next steps, and none run while this cell does",
    "ui": "is a server",
}
# In place of a run, where the kernel is not recorded.
_THIS_NOTEBOOK = "this-notebook"
_NOT_RECORDED = (
    "This notebook is not recorded. Start its server with `tfprobe run -- jupyter lab` (or "
    "`jupyter notebook`, `jupyter nbconvert --execute`, `papermill`): then each kernel is "
    "recorded, and `%tfprobe report` shows its run. To read another run, name it: "
    "`%tfprobe report RUN`."
)
# A larger page is not put into the notebook, which is saved with it.
_LARGEST_PAGE_BYTES = 8_000_000
_FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts allow-popups allow-downloads" '
    'style="width: 100%; height: 640px; border: 1px solid #8888"></iframe>'
)


def add_magic(shell: Any, python: str = sys.executable) -> None:  # Any: IPython, never imported
    """Add `%tfprobe` to a shell of IPython. `python` is the interpreter that has tfprobe."""

    def tfprobe(line: str) -> None:
        """Run a command of tfprobe that reads, with the arguments of the shell.

        `%tfprobe report`, `%tfprobe op`, `%tfprobe --help`. Without RUN, the answer is about the
        run that this kernel is recorded in. With `--html FILE`, the page is shown as well.
        """
        _run(shlex.split(line), python, shell)

    shell.register_magic_function(tfprobe, "line", "tfprobe")


def _run(words: Sequence[str], python: str, shell: Any) -> None:
    why = "waits for the end of this kernel" if "--follow" in words else None
    why = _ELSEWHERE.get(words[0], why) if words else why
    if why is not None:
        command = " ".join(["tfprobe", *map(shlex.quote, words)])
        sys.stderr.write(f"tfprobe: {words[0]} {why}. Use a terminal: {command}\n")
        return
    boot = _boot()
    if boot is not None:
        _note_cells()
    done = subprocess.run(
        [python, "-c", _PROGRAM, *words],
        env=_environment(boot),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    sys.stdout.write(done.stdout)
    if boot is None and _THIS_NOTEBOOK in done.stderr:
        sys.stderr.write(f"tfprobe: {_NOT_RECORDED}\n")
        return
    sys.stderr.write(done.stderr)
    if done.returncode == 0:
        _show_page(words, shell)


def _boot() -> Path | None:
    """Return the boot directory of the run that records this process, None if none does."""
    agent = sys.modules.get("tfprobe_agent")
    boot = None if agent is None else Path(agent.__path__[0]).parent
    return boot if boot is not None and (boot / "config.json").exists() else None


def _note_cells() -> None:
    """Let the agent write the numbers of cells that no step has run in yet."""
    cells = sys.modules.get("tfprobe_agent.cells")
    if cells is not None:
        cells.note_cells()


def _environment(boot: Path | None) -> dict[str, str]:
    """Return the environment of the command, which is no part of the job."""
    variables = {**os.environ, "TFPROBE_DISABLE": "1", "COLUMNS": _COLUMNS}
    variables["PYTHONIOENCODING"] = "utf-8"
    if boot is None:
        variables.setdefault("TFPROBE_RUN", _THIS_NOTEBOOK)
        return variables
    variables["TFPROBE_RUN"] = str(boot.parent)
    variables["TFPROBE_OUTPUT"] = str(boot.parent.parent)
    paths = variables.get("PYTHONPATH", "").split(os.pathsep)
    variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path != str(boot))
    return variables


def _show_page(words: Sequence[str], shell: Any) -> None:
    """Show the file that `report --html FILE` has written."""
    at = [place for place, word in enumerate(words) if word == "--html"][-1:]
    named = [word[len("--html=") :] for word in words if word.startswith("--html=")]
    named += [words[place + 1] for place in at]
    if words[:1] != ["report"] or not named:
        return
    path = Path(named[-1])
    if path.stat().st_size > _LARGEST_PAGE_BYTES:
        sys.stdout.write("The page is too large for a notebook; open the file in a browser.\n")
        return
    page = html.escape(path.read_text(encoding="utf-8"))
    # Not all front ends show HTML: a terminal shows the text.
    shell.display_pub.publish({"text/html": _FRAME.format(page=page), "text/plain": str(path)})
