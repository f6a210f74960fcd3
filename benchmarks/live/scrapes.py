"""Measure what scraping costs: `python benchmarks/live/scrapes.py`.

64 toy jobs step while `tfprobe metrics` is scraped. A scrape is timed from outside, from the
request to the last byte, with gzip as Prometheus asks for it; the CPU time is that of the exporter
and of the programs that it asks for findings.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from jobs_of import running  # noqa: E402

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3"
# Reading all captures for the first time belongs to no scrape.
WARM_UP_S = 20


def main(argv: Sequence[str]) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="scrapes.py", description=__doc__)
    parser.add_argument("-n", "--scrapes", type=int, default=8)
    parser.add_argument("--every-s", type=float, default=15.0)
    parser.add_argument("--jobs", type=int, default=64)
    parser.add_argument("--step-ms", type=float, default=20.0)
    options = parser.parse_args(argv)
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, load {load:.1f} before\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), options.jobs, options.step_ms) as runs,
        _exporter(runs) as (pid, url),
    ):
        _measure(pid, url, options)
    return 0


def _measure(pid: int, url: str, options: argparse.Namespace) -> None:
    _scrape(url)
    time.sleep(WARM_UP_S)
    began_s, used_s, times_s, content = time.monotonic(), _cpu_s(pid), [], b""
    for number in range(1, options.scrapes + 1):
        time.sleep(max(began_s + number * options.every_s - time.monotonic(), 0))
        asked_s = time.monotonic()
        content = _scrape(url)
        times_s.append(time.monotonic() - asked_s)
    share = (_cpu_s(pid) - used_s) / (time.monotonic() - began_s)
    lines = gzip.decompress(content).decode().splitlines()
    series = sum(not line.startswith("#") for line in lines)
    print("| what | result |")
    print("|---|---|")
    print(f"| processes, series | {options.jobs}, {series} |")
    print(f"| a scrape, median | {statistics.median(times_s) * 1e3:.0f} ms |")
    print(f"| a scrape, longest of {len(times_s)} | {max(times_s) * 1e3:.0f} ms |")
    print(f"| its bytes, packed | {len(content) / 1024:.0f} KiB |")
    print(f"| share of a core, one scrape in {options.every_s:g} s | {share:.1%} |")


def _scrape(url: str) -> bytes:
    request = urllib.request.Request(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


@contextmanager
def _exporter(runs: Path) -> Iterator[tuple[int, str]]:
    """Start an endpoint; give its pid and where it is."""
    command = [sys.executable, "-m", "tfprobe", "metrics", str(runs), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.terminate()


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children that have ended."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    fields = stat[stat.rindex(")") + 2 :].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
