"""Start the processes of a trial's arms, watch them, and end them with all their children."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprobe.analysis.compare.delays import DelayedProcess
from tfprobe.analysis.compare.trials import Losses, Marks, ProcessTimes, Weights, process_times
from tfprobe.errors import Missing
from tfprobe.findings.fixes import ChosenFix
from tfprobe.runs.layout import RunFolder
from tfprobe.trial.arm_files import ArmFiles, read_arm
from tfprobe.trial.namespace import kill_processes_in, other_namespace
from tfprobe.trial.workspace import Workspace

BASE = "base"
# Units before anything is measured, at the least.
WARM_UNITS = 16
# Where fixes of other sizes meet only later, their weights are not compared.
_MOST_WARM_UNITS = 512
# Between two looks whether an arm has ended.
_LOOK_S = 0.05
# How long its children get after the arm has stopped.
_LEAVE_S = 2.0
_TAIL_BYTES = 4000

# Loggers of experiments, kept dark: a trial is no run of the user's.
_OFFLINE = {
    "WANDB_MODE": "offline",
    "COMET_OFFLINE_MODE": "1",
    "NEPTUNE_MODE": "offline",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}

_PRELOAD = "LD_PRELOAD"

# What PyTorch keeps of compiled programs, by default below the system's temporary directory, which
# is not overlaid: each process begins without, so that no arm is warm because another one was.
_COMPILE_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


@dataclass(frozen=True, slots=True)
class Arm:
    """The job with some fixes; the base has none."""

    name: str
    fixes: tuple[ChosenFix, ...] = ()

    def agent_fixes(self) -> dict[str, int | str | None]:
        """Return the fixes that the agent applies, with their values."""
        return {chosen.fix.id: chosen.value for chosen in self.fixes if chosen.fix.is_of_agent}

    @property
    def is_of_start(self) -> bool:
        """Return whether its fixes change only the start, by what processes before have left."""
        return bool(self.fixes) and all(chosen.fix.is_of_start for chosen in self.fixes)

    def environment(self) -> dict[str, str]:
        """Return the variables of the fixes that are set from outside."""
        found: dict[str, str] = {}
        for chosen in self.fixes:
            found.update(chosen.fix.environment(chosen.value))
        return found


@dataclass(frozen=True, slots=True)
class TriedJob:
    """The command that is tried, and from where: `cwd` and `environment` are the user's."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    place: Workspace
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ArmProcess:
    """What became of one process of an arm.

    `status` is its exit status, or minus a signal; `files` what it left. `tail` is the end of what
    it printed on stderr. `written` are files that it would have written among the user's.
    """

    arm: Arm
    order: int
    status: int
    files: ArmFiles | Missing
    tail: str
    run: RunFolder | None
    written: tuple[str, ...] = ()
    was_ended: bool = False
    # The part of the marks that is measured, if that is not all after the warm-up.
    common: Marks | None = None
    warm_units: int = WARM_UNITS

    @property
    def failed(self) -> bool:
        """Return whether the job itself failed."""
        return self.status != 0 and not self.was_ended

    @property
    def is_not_applied(self) -> bool:
        """Return whether one of the agent's fixes was applied nowhere."""
        if isinstance(self.files, Missing):
            return False
        notes = self.files.fixes
        return any(name not in notes or notes[name].applied == 0 for name in self.arm.agent_fixes())

    def delayed(self, part: str, level: float, number: int) -> DelayedProcess | Missing:
        """Return what a part and its delay took of a unit; `level` was asked for in this round."""
        times = self.times
        if isinstance(times, Missing):
            return times
        assert isinstance(self.files, ArmFiles)
        marks = self.measured
        edges = int(marks.mono_ns[0]), int(marks.mono_ns[-1])
        spans = [delay.between(*edges) for delay in self.files.delays.get(part, ())]
        units = float(times.units.sum())
        part_ns, delay_ns = (sum(column) / units for column in zip((0.0, 0.0), *spans, strict=True))
        return DelayedProcess(number, level, times.unit_ns, part_ns, delay_ns)

    @property
    def weights(self) -> Weights | Missing:
        return self.files if isinstance(self.files, Missing) else self.files.weights

    @property
    def losses(self) -> Losses | Missing:
        return self.files if isinstance(self.files, Missing) else self.files.losses

    @property
    def times(self) -> ProcessTimes | Missing:
        """The measured part in blocks."""
        if isinstance(self.files, Missing):
            return self.files
        return process_times(self.measured)

    @property
    def measured(self) -> Marks:
        """The marks of what is measured."""
        return self.warm if self.common is None else self.common

    @property
    def warm(self) -> Marks:
        """The marks after the warm-up."""
        assert isinstance(self.files, ArmFiles)
        return self.files.marks.without_warm_up(self.warm_units)

    @property
    def warm_up_s(self) -> float | None:
        """The time from the start of the interpreter to the end of the warm-up."""
        if isinstance(self.files, Missing):
            return None
        warm = self.warm
        if len(warm.mono_ns) == 0:
            return None
        return (int(warm.mono_ns[0]) - self.files.start_mono_ns) / 1e9


class StartedArm:
    """A running process of an arm."""

    def __init__(
        self,
        job: TriedJob,
        arm: Arm,
        order: int,
        trial: Mapping[str, Any],
        flags: Mapping[str, object],
    ) -> None:
        """Start it: `trial` is the agent's part of config.json, `flags` are options of `run`."""
        self.arm = arm
        self.order = order
        self._warm_units = int(trial["warm_units"])
        self._place = job.place
        # A descriptor, open until nobody is left there.
        self._namespace: int | None = None
        self._folder = job.place.scratch / f"{order:03d}-{arm.name.replace('/', '_')}"
        cwd = job.place.make(self._folder)
        spec = {
            "command": list(job.command),
            "cwd": str(cwd),
            "overlays": [
                [str(overlay.path), str(overlay.upper), str(overlay.work)]
                for overlay in job.place.overlays(self._folder)
            ],
            "scratch": str(job.place.scratch),
            "output": str(self._folder / "runs"),
            "flags": dict(flags),
            "trial": {**trial, "fixes": {**trial["fixes"], **_directories(job.place, arm)}},
        }
        spec_file = self._folder / "spec.json"
        spec_file.write_text(json.dumps(spec))
        tracking = (self._folder / "mlruns").as_uri()
        environment = {
            **job.environment,
            "PYTHONHASHSEED": str(job.seed),
            "MLFLOW_TRACKING_URI": tracking,
            **{name: str(self._folder / folder) for name, folder in _COMPILE_CACHES.items()},
            **_OFFLINE,
            **_with_own_libraries(arm.environment(), job.environment),
        }
        with (
            (self._folder / "stdout").open("wb") as stdout,
            (self._folder / "stderr").open("wb") as stderr,
        ):
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tfprobe.trial.start", str(spec_file)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                # Modules in the job's directory may have the names of ours.
                cwd=self._folder,
                env=environment,
                # One group for the job and its children, apart from the terminal's.
                start_new_session=True,
            )

    def wait(self, deadline: float) -> ArmProcess:
        """Wait until it has ended, at most until `deadline` of time.monotonic()."""
        was_ended = False
        while self.process.poll() is None:
            self._find_namespace()
            if time.monotonic() > deadline:
                was_ended = True
                self.end()
                break
            time.sleep(_LOOK_S)
        self._end_children()
        return self._left(was_ended=was_ended)

    def end(self) -> None:
        """End the job and its children."""
        self._find_namespace()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_LEAVE_S)
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._end_others()

    def _end_children(self) -> None:
        """End what the job has left running: workers that nobody waits for now."""
        if self._signal(signal.SIGTERM):
            end = time.monotonic() + _LEAVE_S
            while time.monotonic() < end and self._signal(0):
                time.sleep(_LOOK_S)
            self._signal(signal.SIGKILL)
        self._end_others()

    def _find_namespace(self) -> None:
        """Find the job's mount namespace, once it has one of its own."""
        if self._namespace is None and self.process.poll() is None:
            self._namespace = other_namespace(self.process.pid)

    def _end_others(self) -> None:
        """End what sees the job's overlays, but has left its group."""
        if self._namespace is not None:
            kill_processes_in(self._namespace)
            os.close(self._namespace)
            self._namespace = None

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; return whether anybody is in it."""
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _left(self, *, was_ended: bool) -> ArmProcess:
        runs = [path for path in (self._folder / "runs").glob("*") if path.is_dir()]
        run = RunFolder(runs[0]) if runs else None
        files = Missing("the job was not recorded") if run is None else read_arm(run)
        return ArmProcess(
            arm=self.arm,
            order=self.order,
            status=self.process.returncode,
            files=files,
            tail=_tail(self._folder / "stderr"),
            run=run,
            written=self._place.written(self._folder),
            was_ended=was_ended,
            warm_units=self._warm_units,
        )


def _directories(place: Workspace, arm: Arm) -> dict[str, str]:
    """Return a directory of the trial, which all processes of an arm share, for fixes of starts."""
    found = {}
    for chosen in arm.fixes:
        if chosen.fix.is_of_start:
            folder = place.scratch / "kept" / arm.name / chosen.fix.id
            folder.mkdir(parents=True, exist_ok=True)
            found[chosen.fix.id] = str(folder)
    return found


def _with_own_libraries(
    variables: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of fixes; libraries that the user preloads come after theirs."""
    own = environment.get(_PRELOAD)
    both = {_PRELOAD: f"{variables[_PRELOAD]}:{own}"} if own and _PRELOAD in variables else {}
    return {**variables, **both}


def _tail(path: Path) -> str:
    content = path.read_bytes()[-_TAIL_BYTES:]
    return content.decode(errors="replace").strip()


def warm_units(arms: Sequence[Arm]) -> int:
    """Return how many units all arms warm up: at that unit the weights of all can be compared.

    A fix may run several units in one call, so that it passes only each of their multiples.
    """
    sizes = [chosen.units_a_call for arm in arms for chosen in arm.fixes]
    size = math.lcm(1, *sizes)
    return size * -(-WARM_UNITS // size) if size <= _MOST_WARM_UNITS else WARM_UNITS


def trial_config(
    arm: Arm,
    unit: tuple[str, str] | None,
    *,
    seconds: float,
    most_units: int,
    seed: int,
    warm: int = WARM_UNITS,
) -> dict[str, Any]:
    """Return the agent's part of config.json for an arm."""
    return {
        "arm": arm.name,
        "fixes": arm.agent_fixes(),
        "unit": None if unit is None else {"kind": unit[0], "name": unit[1]},
        "weights_at": warm,
        "warm_units": warm,
        "seconds": seconds,
        "units": most_units,
        "seed": seed,
    }


def order_of(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return one round of arms, forward and backward, so that a drift reaches all alike: ABBA."""
    return (*arms, *reversed(arms))
