"""Start a server of pages, ask it, and say what it takes. Knows no target."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs. `address` is what its first line said, with the token."""

    process: subprocess.Popen[str]
    address: str

    @property
    def base(self) -> str:
        """The address without what follows the port."""
        return f"http://{urlsplit(self.address).netloc}"

    def peak_bytes(self) -> int:
        """Return the most memory that it occupied."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def pages_of(directory: Path) -> Iterator[Server]:
    """Serve a directory of runs by `tfprobe ui`."""
    command = [sys.executable, "-m", "tfprobe", "ui", str(directory), "--no-browser", "--port", "0"]
    with _running(command, {"PYTHONPATH": str(ROOT)}) as process:
        assert process.stdout is not None
        yield Server(process, process.stdout.readline().strip())


@contextmanager
def peer(command: Sequence[str], address: str) -> Iterator[Server]:
    """Run another program's server until it answers at its address."""
    with _running(command, {}) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(address):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{' '.join(command)} does not answer at {address}")
            time.sleep(0.1)
        yield Server(process, address)


def answer_s(address: str) -> float:
    """Ask for an address and read the answer to its end."""
    started = time.perf_counter()
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        answer.read()
    return time.perf_counter() - started


def _answers(address: str) -> bool:
    try:
        answer_s(address)
    except OSError:
        return False
    return True


@contextmanager
def _running(command: Sequence[str], extra: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env={**os.environ, **extra},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)
