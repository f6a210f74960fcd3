"""Run the real agent in tests: in this process, or in jobs with the toy TensorFlow."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.support import toy_tensorflow
from tfprobe.launch.run_directory import write_boot
from tfprobe.profile.activities import Gap
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.process_folder.gaps import gap_log
from tfprobe.runs.process_folder.steps import StepsFile, read_steps

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "sitecustomize_hooks"
PATIENCE_S = 120

# Runs `tfprobe` from this checkout.
TFPROBE = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tfprobe.cli.main import main
sys.exit(main())
"""
# The module greenlet for a job that itself says which greenlet runs.
GREENLET = """
class greenlet:
    dead = False
    def __init__(self, parent=None):
        self.parent = parent
main = greenlet()
current = main
def getcurrent():
    return current
"""
# The beginning of each job of these tests.
PREFACE = """
import os, sys, threading, time
import tensorflow.python.client.session as session_module
import tensorflow.python.eager.def_function as def_function
import tensorflow.python.profiler.profiler_v2 as profiler
session = session_module.BaseSession()
"""


def load(module: str) -> ModuleType:
    """Import a module of the agent into this process, under its own name."""
    if str(HOOKS) not in sys.path:
        sys.path.append(str(HOOKS))
    return importlib.import_module(f"tfprobe_agent.{module}")


def replace_unpatched(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, **replacements: Any
) -> None:
    """Let one module of the agent call other functions of the operating system."""
    unpatched = module.UNPATCHED
    functions = {name: getattr(unpatched, name) for name in dir(unpatched) if name[0] != "_"}
    monkeypatch.setattr(module, "UNPATCHED", SimpleNamespace(**{**functions, **replacements}))


@dataclass(frozen=True)
class Laboratory:
    """A directory for one run of jobs that import the toy TensorFlow."""

    folder: Path

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def boot(self) -> Path:
        return self.run / "boot"

    def arm(self, **config: Any) -> Laboratory:
        """Write the toy TensorFlow and a boot directory as the launcher writes it."""
        toy_tensorflow.write(self.folder / "packages")
        settings = {"steps": None, "every": None, "budget": 0.01, "trace_level": "full"}
        manifest = {"schema": "tfprobe.run/1", "id": "run", "command": ["job"], "pid": 1}
        self.run.mkdir(mode=0o700)
        (self.run / "run.json").write_text(json.dumps(manifest))
        write_boot(RunFolder(self.run), {"schema": "tfprobe.config/1", **settings, **config})
        return self

    def environment(self, changes: Mapping[str, str] | None = None) -> dict[str, str]:
        path = f"{self.boot}{os.pathsep}{self.folder / 'packages'}"
        return {"PYTHONPATH": path, "PATH": "/usr/bin:/bin", **(changes or {})}

    def start(
        self, job: str, *, python: str = sys.executable, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a job, with pipes for its stdin and stdout."""
        return subprocess.Popen(
            [python, "-c", PREFACE + job],
            env=self.environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def finish(
        self, job: str, *, python: str = sys.executable, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """Run a job that must end well and print nothing to stderr; return its lines on stdout."""
        process = self.start(job, python=python, env=env)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, stderr.decode()) == (0, "")
        return stdout.decode().splitlines()

    def folders(self) -> list[Path]:
        """The process folders, oldest first."""
        return sorted(
            (file.parent for file in self.run.glob("*/*/process.json")),
            key=lambda folder: int(folder.name.split("-")[1]),
        )

    def steps(self, folder: Path | None = None) -> StepsFile:
        """The steps of a process; without `folder`, of the only one."""
        steps = read_steps(self._folder(folder) / "steps.bin")
        assert len(steps.problems) == (steps.header.untimed_steps > 0)
        return steps

    def counts(self, folder: Path | None = None) -> dict[str, int]:
        """Steps by name of loop, over all threads."""
        counts: dict[str, int] = {}
        for loop in self.steps(folder).loops:
            counts[loop.name] = counts.get(loop.name, 0) + loop.count
        return counts

    def lines(self, name: str, folder: Path | None = None) -> list[dict[str, Any]]:
        """The lines of one .jsonl file of a process."""
        text = (self._folder(folder) / name).read_text()
        return [json.loads(line) for line in text.splitlines()]

    def events(
        self, folder: Path | None = None, *, kind: str | None = None
    ) -> list[dict[str, Any]]:
        """The events of a process, all or those of one kind."""
        events = self.lines("events.jsonl", folder)
        return [event for event in events if kind in (None, event["event"])]

    def errors(self, folder: Path | None = None) -> list[dict[str, Any]]:
        """The events that report an error of the agent."""
        return [event for event in self.events(folder) if event["event"] in ("error", "aside")]

    def gaps(self, folder: Path | None = None) -> tuple[Gap, ...]:
        """The watched gaps of a process, on its monotonic clock."""
        log = gap_log(self._folder(folder) / "gaps.jsonl")
        gaps = tuple(log.read().things)
        assert log.bad_lines == 0
        return gaps

    def _folder(self, folder: Path | None) -> Path:
        (folder,) = [folder] if folder is not None else self.folders()
        return folder
