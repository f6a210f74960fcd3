"""Record a network of ten thousand ops, and make long runs of its captures.

A long run holds the same step as often as it takes, each copy in a file of its own and moved on in
time, as if every step had been sampled. Recordings are kept in the cache.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.matrix.environments import cache
from tests.tf.laboratory import environment_of_a_job
from tfprobe.formats.schema import message_class
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.catalogue import find_run
from tfprobe.runs.layout import LATEST
from tfprobe.runs.liveness import this_machine

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).resolve().parent / "jobs" / "large_graph.py"
SUFFIXES = {"session": ".run_metadata.pb", "function": ".xplane.pb"}
# Far enough for the steps not to overlap.
STEP_NS = 100_000_000


@dataclass(frozen=True, slots=True)
class Inputs:
    """What tfprof takes, made by TensorFlow: a GraphDef, a RunMetadata and a ProfileProto."""

    graph: Path
    step: Path
    profile: Path


def inputs(python: str) -> Inputs:
    """Return the files of one step of a graph of ten thousand ops."""
    folder = _folder() / "by_hand"
    if not (folder / "profile.pb").exists():
        folder.mkdir(parents=True, exist_ok=True)
        _call([python, str(JOB), "session", "--by-hand", str(folder)])
    return Inputs(folder / "graph.pb", folder / "step.pb", folder / "profile.pb")


def recorded(python: str, kind: str) -> Path:
    """Return a run of two sampled steps, "session" (RunMetadata) or "function" (XSpace)."""
    output = _folder() / kind
    if not output.exists():
        record = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(output), "--steps", "5-6"]
        _call([*record, "--", python, str(JOB), kind])
    return find_run(LATEST, output).root


def long_run(python: str, kind: str, wanted: int) -> tuple[Path, int]:
    """Return a run of at least `wanted` executions, and how many it holds."""
    source = recorded(python, kind)
    profile = load(find_run(str(source), source.parent), this_machine())
    # The second of two captures: the first of a session holds its graphs as well.
    per_capture = int((profile.executions.capture == 1).sum())
    copies = -(-wanted // per_capture)
    run = _folder() / f"{kind}-{wanted}" / source.name
    if not run.exists():
        partial = run.with_name(f"{run.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial)
        _multiply(partial, kind, copies)
        partial.rename(run)
    return run, copies * per_capture


def long_capture(python: str, copies: int) -> Path:
    """Return a run with one XSpace, which holds the events of a step `copies` times in a row."""
    source = recorded(python, "function")
    run = _folder() / f"function-long-{copies}" / source.name
    if not run.exists():
        partial = run.with_name(f"{run.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(source, partial)
        first, second = sorted(partial.glob(f"*/*/captures/*{SUFFIXES['function']}"))
        first.unlink()
        second.write_bytes(_repeated(second.read_bytes(), copies))
        partial.rename(run)
    return run


def example(python: str, name: str) -> Path:
    """Return a run of one of our examples."""
    output = _folder() / "examples" / name
    if not output.exists():
        record = [sys.executable, "-m", "tfprobe", "run", "-q", "-o", str(output), "--"]
        _call([*record, python, str(ROOT / "examples" / f"{name}.py")])
    return find_run(LATEST, output).root


def xprof_python() -> str:
    """Return an interpreter that has xprof, in an environment of its own."""
    folder = cache() / "xprof"
    python = str(folder / "bin" / "python")
    if not (folder / "bin" / "xprof").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-input", "xprof"], check=True)
    return python


def hta_python() -> str:
    """Return an interpreter that has HolisticTraceAnalysis, in an environment of its own."""
    folder = cache() / "hta"
    python = str(folder / "bin" / "python")
    if not any(folder.glob("lib/python*/site-packages/hta")):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [python, "-m", "pip", "install", "-q", "--no-input", "HolisticTraceAnalysis"]
        subprocess.run(install, check=True)
    return python


def _repeated(content: bytes, copies: int) -> bytes:
    message = message_class("tfprobe.xplane.XSpace")()
    message.ParseFromString(content)
    for line in (line for plane in message.planes for line in plane.lines):
        events = list(line.events)
        for at in range(1, copies):
            for event in events:
                copy = line.events.add()
                copy.CopyFrom(event)
                copy.offset_ps += at * STEP_NS * 1000
    return bytes(message.SerializeToString())


def _multiply(run: Path, kind: str, copies: int) -> None:
    (process,) = {path.parent for path in run.glob("*/*/captures")}
    first, second = sorted((process / "captures").glob(f"*{SUFFIXES[kind]}"))
    content = second.read_bytes()
    events = (process / "events.jsonl").read_text().splitlines()
    sample = next(event for event in map(json.loads, events) if event.get("capture") == second.name)
    number, _, rest = second.name.partition("-")
    lines = [line for line in events if '"sample"' not in line]
    for at, copy in enumerate(_copies(content, kind, copies)):
        name = f"{int(number) + at:06}-{rest}"
        (process / "captures" / name).write_bytes(copy)
        moved = {"step": sample["step"] + at, "capture": name}
        moved |= {
            key: sample[key] + at * STEP_NS for key in ("start_ns", "end_ns", "start_unix_ns")
        }
        lines.append(json.dumps({**sample, **moved}))
    first.unlink()
    (process / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))


def _copies(content: bytes, kind: str, count: int) -> Iterator[bytes]:
    name = "step_stats.RunMetadata" if kind == "session" else "xplane.XSpace"
    message = message_class(f"tfprobe.{name}")()
    message.ParseFromString(content)
    move = _move_rows if kind == "session" else _move_lines
    for _ in range(count):
        yield message.SerializeToString()
        move(message)


def _move_rows(message: Any) -> None:
    for device in message.step_stats.dev_stats:
        for row in device.node_stats:
            row.all_start_micros += STEP_NS // 1000
            row.all_start_nanos += STEP_NS


def _move_lines(message: Any) -> None:
    for plane in message.planes:
        for line in plane.lines:
            line.timestamp_ns += STEP_NS


def _call(command: list[str]) -> None:
    done = subprocess.run(command, env=environment_of_a_job({}), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(
            f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}"
        )


def _folder() -> Path:
    return cache() / "benchmarks" / "analysis"
