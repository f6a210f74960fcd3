"""The example of docs/live.md works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.captures import CPU, Node, run_metadata
from tests.support.rundir import (
    LAYOUT,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    write_run,
)

ROOT = Path(__file__).parents[2]
CAPTURE = run_metadata({CPU: [Node("a", 10, 20, "a = MatMul()")]})


def test_the_example_of_following_runs(tmp_path: Path) -> None:
    """Of a run that has ended, and so once through its loop."""
    (block,) = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "live.md").read_text(), flags=re.M | re.S
    )
    loop = WrittenLoop(name="loss", steps=regular_steps(30, step_ns=2_000_000))
    captures = {"000002-session_run-0.run_metadata.pb": CAPTURE}
    process = WrittenProcess(
        loops=[loop], captures=captures, header={LAYOUT.STATE_WORD: LAYOUT.FINISHED}
    )
    write_run(tmp_path / "tfprobe-runs" / "r1", [process])

    outcome = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (outcome.stdout.splitlines(), outcome.stderr) == (
        [
            "loss: 30 more steps, 2.00 ms",
            "step 2 was traced",
            "1 executions of ops in these",
            "finished",
        ],
        "",
    )
