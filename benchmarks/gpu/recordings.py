"""Run each planted loop bare and recorded, and pack what is left of them. Needs JAX, no network,
and of tfprobe only what `tfprobe run` itself imports: the standard library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).resolve().parent / "jobs" / "loops.py"
# Far enough apart that the steps between are plain; all are within the first 110 steps of a loop.
TRACED_STEPS = "20,60,100"
# XLA times kernels to choose among them, so that equal runs may have different bits.
DETERMINISTIC = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
NO_COMMAND_BUFFER = "--xla_gpu_enable_command_buffer="
LARGEST_CAPTURE_BYTES = 2_000_000
ARCHIVE = "recordings.tar.gz"
# A loop takes seconds; one that hangs must not take the ten minutes.
_PATIENCE_S = 120
_KILLED = -9
_PROBE = """
import json, jax, jaxlib
device = jax.devices()[0]
print(json.dumps({"jax": jax.__version__, "jaxlib": jaxlib.__version__,
                  "device": device.device_kind, "platform": device.platform}))
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One loop run in one way; `name` is that of its folder."""

    name: str
    loop: str
    record: tuple[str, ...] = ("--steps", TRACED_STEPS)
    environment: tuple[tuple[str, str], ...] = ()
    flags: str = ""
    is_for_gpu: bool = False
    repeats: int = 1


# A plain budget, so that the cost is that of a user's job; alternately, because machines drift.
TRAINING = Case("training", "training", record=(), repeats=3)
CASES = (
    Case("kernel_bound", "kernel_bound"),
    Case("host_bound", "host_bound"),
    Case("input_bound", "input_bound"),
    Case("sync_bound", "sync_bound"),
    Case("copy_bound", "copy_bound"),
    Case("overlap", "overlap", is_for_gpu=True),
    Case("asynchronous", "asynchronous"),
    Case("command_buffer", "command_buffer"),
    Case("no_command_buffer", "command_buffer", flags=NO_COMMAND_BUFFER, is_for_gpu=True),
    Case("memory", "memory", environment=(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),)),
    TRAINING,
    Case("own_profiler", "own_profiler", record=("--every", "5")),
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How one process of a case ended; `seconds` is its whole life."""

    status: int
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Machine:
    """What the runner found: versions, device, and the flags that XLA takes."""

    jax: str
    jaxlib: str
    device: str
    platform: str
    flags: str


class NoDeviceError(Exception):
    """The interpreter has no JAX, or JAX has no such device."""


def probe(python: str, device: str, folder: Path) -> Machine:
    """Find out what JAX there is, and whether this XLA takes the flags.

    Raises: NoDeviceError.
    """
    for flags in (DETERMINISTIC, "") if device == "gpu" else ("",):
        ended = _run([python, "-c", _PROBE], _environment(device, flags), folder)
        if ended.status == 0:
            found = json.loads(ended.stdout.splitlines()[-1])
            if (found["platform"] == "cpu") != (device == "cpu"):
                raise NoDeviceError(f"JAX {found['jax']} of {python} sees no GPU.")
            return Machine(**found, flags=flags)
    last_words = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
    raise NoDeviceError(f"{python} has no JAX with a {device}: {last_words}")


def record_all(
    cases: Sequence[Case],
    output: Path,
    *,
    python: str,
    device: str,
    machine: Machine,
    is_quick: bool,
    until_s: float,
) -> Iterator[str]:
    """Run the cases, each bare and recorded in turn, and say of each how it went.

    What is left of them lies below `output`: a folder for each case, with what each process printed
    and what is true of it, and one for its runs. Cases that would begin after `until_s`, by
    time.monotonic, are left out.
    """
    chosen = {"cases": [case.name for case in cases]}
    (output / "machine.json").write_text(json.dumps(asdict(machine) | chosen))
    for case in cases:
        if case.is_for_gpu and device == "cpu":
            continue
        if time.monotonic() > until_s:
            yield f"{case.name}: left out, the time is up"
            continue
        folder = output / case.name
        folder.mkdir()
        flags = f"{machine.flags} {case.flags}".strip()
        environment = {**_environment(device, flags), **dict(case.environment)}
        for number in range(case.repeats):
            spent = []
            for way in ("bare", "recorded"):
                job = [python, str(JOB), case.loop, "--device", device]
                job += ["--truth", str(folder / f"{way}-{number}.truth.json")]
                job += ["--quick"] if is_quick else []
                if way == "recorded":
                    launch = [sys.executable, "-m", "tfprobe", "run", "-q"]
                    job = [*launch, "-o", str(folder / "runs"), *case.record, "--", *job]
                work = folder / f"{way}-{number}"
                work.mkdir()
                ended = _run(job, environment, work)
                spent.append(ended.seconds)
                (folder / f"{way}-{number}.ending.json").write_text(json.dumps(asdict(ended)))
            yield f"{case.name}: bare {spent[0]:.1f} s, recorded {spent[1]:.1f} s"


def pack(output: Path) -> Path:
    """Pack runs, truths and endings into one archive, without captures of 2 MB and more."""

    def chosen(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(item.name).parts
        if "boot" in parts and "tfprobe_agent" in parts:
            return None
        is_large = "captures" in parts and item.size >= LARGEST_CAPTURE_BYTES
        return None if is_large else item

    archive = output / ARCHIVE
    with tarfile.open(archive, "w:gz") as packed:
        for path in sorted(output.iterdir()):
            if path != archive:
                packed.add(path, path.name, filter=chosen)
    return archive


def unpack(archive: Path, folder: Path) -> None:
    """Unpack what `pack` made."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")


def _environment(device: str, flags: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TFPROBE_") and name not in ("XLA_FLAGS", "JAX_PLATFORMS")
    }
    # The launcher is found here; a bare run has the same path, so that both are alike.
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    if device == "cpu":
        kept["JAX_PLATFORMS"] = "cpu"
    return kept | ({"XLA_FLAGS": flags} if flags else {})


def _run(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Ending:
    began_s = time.monotonic()
    try:
        ended = subprocess.run(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ending(_KILLED, "", f"it took more than {_PATIENCE_S} s", time.monotonic() - began_s)
    return Ending(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - began_s)
