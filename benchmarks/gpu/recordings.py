"""Run each planted loop bare and recorded, and pack what is left of them. Needs a framework and no
network, and of tfprobe only what `tfprobe run` itself imports: the standard library.
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

from cases import FRAMEWORKS, Case, Framework

ROOT = Path(__file__).resolve().parents[2]
LARGEST_CAPTURE_BYTES = 2_000_000
ARCHIVE = "recordings.tar.gz"
# A loop takes seconds; one that hangs must not take the ten minutes.
_PATIENCE_S = 120
_KILLED = -9
_OTHERWISE = (
    "Name another interpreter with --python, or see with --device cpu that the loops run; "
    "rows that need a GPU are n/a then."
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

    framework: str
    versions: str
    device: str
    platform: str
    flags: str


class NoDeviceError(Exception):
    """The interpreter lacks the framework, or that has no such device."""


def probe(name: str, python: str, device: str, folder: Path) -> Machine:
    """Find out which framework and device there are, and whether this XLA takes the flags.

    Raises: NoDeviceError.
    """
    framework = FRAMEWORKS[name]
    for flags in framework.flags if device == "gpu" else ("",):
        ended = _run(
            [python, "-c", framework.probe], _environment(framework, device, flags), folder
        )
        if ended.status == 0:
            found = json.loads(ended.stdout.splitlines()[-1])
            if (found["platform"] == "cpu") != (device == "cpu"):
                raise NoDeviceError(f"{found['versions']} of {python} sees no GPU. {_OTHERWISE}")
            return Machine(name, **found, flags=flags)
    last_words = (ended.stderr.strip().splitlines() or ["nothing"])[-1]
    raise NoDeviceError(f"{framework.title} does not start in {python}: {last_words}. {_OTHERWISE}")


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
    framework = FRAMEWORKS[machine.framework]
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
        environment = {**_environment(framework, device, flags), **dict(case.environment)}
        for number in range(case.repeats):
            spent = []
            for way in ("bare", "recorded"):
                job = [python, str(framework.job), case.loop, "--device", device]
                job += ["--truth", str(folder / f"{way}-{number}.truth.json")]
                job += ["--quick"] if is_quick else []
                if way == "recorded":
                    launch = [sys.executable, "-m", "tfprobe", "run", "-q"]
                    job = [*launch, "-o", str(folder / "runs"), *case.record, "--", *job]
                work = folder / f"{way}-{number}"
                work.mkdir()
                # With what an earlier process has compiled, a program may say less.
                ended = _run(job, environment | {"TORCHINDUCTOR_CACHE_DIR": str(work)}, work)
                spent.append(ended.seconds)
                (folder / f"{way}-{number}.ending.json").write_text(json.dumps(asdict(ended)))
            yield f"{case.name}: bare {spent[0]:.1f} s, recorded {spent[1]:.1f} s"


def pack(output: Path, *, is_whole: bool) -> Path:
    """Pack runs, truths and endings into one archive; captures of 2 MB and more only if whole."""

    def chosen(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(item.name).parts
        if "boot" in parts and "tfprobe_agent" in parts:
            return None
        is_large = "captures" in parts and item.size >= LARGEST_CAPTURE_BYTES
        return None if is_large and not is_whole else item

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


def _environment(framework: Framework, device: str, flags: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TFPROBE_") and name not in ("XLA_FLAGS", "JAX_PLATFORMS")
    } | dict(framework.environment)
    # The launcher is found here; a bare run has the same path, so that both are alike.
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    if device == "cpu":
        kept |= dict(framework.on_cpu)
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
