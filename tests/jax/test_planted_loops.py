"""The benchmark of planted loops runs whole where there is JAX and no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.tf.laboratory import Laboratory, environment_of_a_job

RUNNER = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu" / "run.py"


def test_what_is_exact_is_right_on_any_machine(laboratory: Laboratory, tmp_path: Path) -> None:
    """Counts, results, float operations and what is printed; times are a matter of the load."""
    command = [sys.executable, str(RUNNER), "--device", "cpu", "--quick", "--out", str(tmp_path)]
    command += ["--python", laboratory.python]
    for loop in ("asynchronous", "command_buffer", "own_profiler"):
        command += ["--only", loop]

    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment_of_a_job({}), check=False
    )

    assert ended.returncode == 0, ended.stderr
    rows = json.loads((tmp_path / "rows.json").read_text())
    verdicts = {(row["case"], row["what"]): row["verdict"] for row in rows}
    assert verdicts["command_buffer", "results, bit for bit"] == "right"
    assert verdicts["command_buffer", "steps of chained_step"] == "right"
    assert verdicts["own_profiler", "the program's own profile"] == "right"
    assert verdicts["no_command_buffer", "the loop"] == "n/a"
    if laboratory.tensorflow >= (0, 6):  # below, no step is traced
        # Those around traced steps are not the program's.
        assert verdicts["asynchronous", "waits of the host"] == "right"
        assert verdicts["command_buffer", "float operations a step"] == "right"
        assert verdicts["command_buffer", "traced steps"] == "right"
    assert (tmp_path / "recordings.tar.gz").stat().st_size > 0
