"""Start real processes, bare and through `tfprobe run`, and hold what came of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
_NOTICE = re.compile(rb"^tfprobe: recording to ([^\n]*)\n")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended and what it said."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def run(self) -> Path:
        """The run directory that the launcher named."""
        match = _NOTICE.match(self.stderr)
        assert match, self.stderr.decode()
        return Path(os.fsdecode(match[1]))

    @property
    def own_stderr(self) -> bytes:
        """What the job itself wrote to stderr."""
        return _NOTICE.sub(b"", self.stderr)

    def lines(self) -> list[str]:
        """What it said on stdout."""
        return self.stdout.decode().splitlines()


@dataclass(frozen=True, slots=True)
class Launcher:
    """A `tfprobe` as installed, a place for runs and a place for jobs."""

    program: Path
    output: Path
    work: Path

    def run(self, *arguments: str | Path, **more: Mapping[str, str | None] | bool) -> Ending:
        """Launch `tfprobe run -o OUTPUT ARGUMENTS`."""
        return self.tfprobe("run", "-o", self.output, *arguments, **more)

    def tfprobe(self, *arguments: str | Path, **more: Mapping[str, str | None] | bool) -> Ending:
        """Launch the program with these arguments."""
        return self.bare(self.program, *arguments, **more)

    def bare(
        self,
        *command: str | Path,
        env: Mapping[str, str | None] | None = None,
        **more: object,
    ) -> Ending:
        """Run a command without tfprobe, in the same place and environment."""
        return execute(command, cwd=self.work, environment=environment(env or {}), **more)

    def write(self, name: str, text: str, *, mode: int = 0o644) -> Path:
        """Put a file where the jobs run."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def runs(self) -> list[Path]:
        """The run directories there are."""
        return sorted(self.output.iterdir()) if self.output.is_dir() else []


def execute(
    command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str], **more: object
) -> Ending:
    """Run a command to its end."""
    ended = subprocess.run(
        [os.fspath(word) for word in command],
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        **more,  # type: ignore[call-overload]
    )
    return Ending(ended.returncode, ended.stdout, ended.stderr)


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """A small environment that nobody's settings leak into; None removes a variable."""
    base: dict[str, str | None] = {
        "HOME": os.environ.get("HOME", "/"),
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {name: value for name, value in (base | dict(changes)).items() if value is not None}
