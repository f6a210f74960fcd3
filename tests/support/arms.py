"""Run a job as an arm of a trial, as the launcher would start it, and read what it left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.tf.laboratory import JOB_TIMEOUT_S, environment_of_a_job
from tfprobe.launch.run_directory import write_boot
from tfprobe.runs.layout import RunFolder

TRIAL = {
    "arm": "base",
    "unit": None,
    "weights_at": 8,
    "warm_units": 8,
    "seconds": 3600.0,
    "units": 12,
    "seed": 0,
}


@dataclass(frozen=True)
class Arm:
    """What an arm that has ended left in the folder of its one counting process."""

    status: int
    stderr: str
    run: Path

    @cached_property
    def folder(self) -> Path:
        """The process folder."""
        folders = [path.parent for path in self.run.glob("*/*/trial.jsonl")]
        assert len(folders) == 1, self.stderr[-3000:]
        return folders[0]

    @cached_property
    def notes(self) -> dict[str, dict[str, Any]]:
        """What became of each fix."""
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return {event["fix"]: event for event in events if event["event"] == "fix"}

    @property
    def applied(self) -> dict[str, bool]:
        """Whether each fix was applied, without an error."""
        return {fix: note["applied"] > 0 for fix, note in self.notes.items() if not note["error"]}

    @property
    def skipped(self) -> dict[str, set[str]]:
        """Why each fix was left out somewhere."""
        return {fix: set(note["skipped"]) for fix, note in self.notes.items()}

    @property
    def delays(self) -> dict[str, tuple[int, int]]:
        """What each part that was timed took, and its delays, over all processes, in ns."""
        found: dict[str, tuple[int, int]] = {}
        for file in self.run.glob("*/*/delays.jsonl"):
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            for line in {line["part"]: line for line in lines}.values():
                part_ns, delay_ns = found.get(line["part"], (0, 0))
                found[line["part"]] = part_ns + line["part_ns"], delay_ns + line["delay_ns"]
        return found

    @property
    def stopped(self) -> str:
        """What ended it."""
        lines = (self.folder / "trial.jsonl").read_text().splitlines()
        why: str = json.loads(lines[-1])["stopped"]
        return why

    @cached_property
    def document(self) -> dict[str, Any]:
        """What it wrote about its weights."""
        document: dict[str, Any] = json.loads((self.folder / "weights.json").read_text())
        return document

    @cached_property
    def losses(self) -> dict[int, float]:
        """The losses of its first steps, by the number of units done; empty if there are none."""
        document = json.loads((self.folder / "losses.json").read_text())
        return dict(document.get("losses", []))

    @property
    def weights(self) -> list[tuple[str, str]]:
        """Name and hash of each array."""
        return [(array["name"], array["sha1"]) for array in self.document["arrays"]]

    def distance(self, base: Arm) -> float:
        """Return how far its weights are from those of the base, relative to the base's norm."""
        others = base._values()
        return float(np.linalg.norm(self._values() - others) / np.linalg.norm(others))

    def _values(self) -> npt.NDArray[np.float64]:
        return np.frombuffer((self.folder / "weights.bin").read_bytes(), "<f8")


class StartedArm:
    """An arm under way, in an empty folder of its own."""

    def __init__(
        self, python: str, job: Path, folder: Path, fixes: Mapping[str, Any], **changes: Any
    ) -> None:
        """Start the program `job` with these fixes and their values."""
        self._run, self._stderr = folder / "run", folder / "stderr"
        work = folder / "work"
        work.mkdir(parents=True)
        self._run.mkdir(mode=0o700)
        manifest = {"schema": "tfprobe.run/1", "id": "run", "command": ["job"], "pid": 1}
        (self._run / "run.json").write_text(json.dumps(manifest))
        settings = {"steps": None, "every": None, "budget": 0.01, "trace_level": "off"}
        trial = {**TRIAL, **changes, "fixes": dict(fixes)}
        config = {"schema": "tfprobe.config/1", **settings, "trial": trial}
        write_boot(RunFolder(self._run), config)
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [python, str(job)],
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                cwd=work,
                env=environment_of_a_job({"PYTHONPATH": str(self._run / "boot")}),
                start_new_session=True,
            )

    def finish(self) -> Arm:
        """Wait for the end, and end what it has started itself."""
        try:
            status = self._process.wait(JOB_TIMEOUT_S)
        finally:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return Arm(status, self._stderr.read_text(errors="replace"), self._run)


def run_arms(
    python: str, job: Path, folder: Path, arms: Mapping[str, Mapping[str, Any]], **changes: Any
) -> dict[str, Arm]:
    """Run all arms at once; give each by its name."""
    started = {
        name: StartedArm(python, job, folder / name, fixes, **changes)
        for name, fixes in arms.items()
    }
    return {name: arm.finish() for name, arm in started.items()}
