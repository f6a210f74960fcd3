"""Write the process folder of one rank, made of a real one: all its files, moved to where and when
this rank would have written them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import captures
import numpy as np
from numpy.typing import NDArray

HEADER_WORDS = 512
_RING_AT = 64 + 2 * 1544
_FLAGS_FROM = 60
# What ranks begin a step later than the first of them, at most.
LATEST_NS = 200_000
# What they leave an all-reduce later than the first of them, at most: a message on a good network.
LEAVES_NS = 30_000
# Keys of lines whose values are moments of the process's own clock, and of the wall's.
_MONOTONIC = ("mono_ns", "start_ns", "end_ns")
_WALL = ("unix_ns", "start_unix_ns")
_LINES = ("activities.jsonl", "gaps.jsonl", "pulses.jsonl")


@dataclass(frozen=True, slots=True)
class Place:
    """Who a rank is, and how far the clocks of its host are from those of the real one."""

    rank: int
    world: int
    host: str
    boot_id: str
    monotonic_ahead_ns: int
    wall_ahead_ns: int
    slow_ratio: float | None


@dataclass(frozen=True, slots=True)
class Template:
    """The real rank: its small files as they are, its captures ready to be moved."""

    manifest: Mapping[str, Any]
    steps: NDArray[np.int64]
    events: tuple[Mapping[str, Any], ...]
    lines: Mapping[str, tuple[Mapping[str, Any], ...]]
    # "graphs/abc.graph.pb", and what is in it.
    files: Mapping[str, bytes]
    captures: Mapping[str, captures.Capture]
    # By sample, in order: when it began (monotonic), and how much longer it is for every rank.
    sampled_ns: NDArray[np.int64]
    grown_ns: NDArray[np.int64]

    def later(self, mono_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return by how much what is recorded for these moments happens later."""
        before = np.searchsorted(self.sampled_ns, mono_ns, side="left")
        return np.concatenate(([0], np.cumsum(self.grown_ns)))[before]


def template(process: Path, wanted: int, *, slowest_ratio: float) -> Template:
    """Read a process folder, of its captures the first `wanted`."""
    events = [json.loads(line) for line in (process / "events.jsonl").read_text().splitlines()]
    samples = [each for each in events if each["event"] == "sample"][:wanted]
    names = {each["capture"] for each in samples}
    kept = [each for each in events if each["event"] != "sample" or each["capture"] in names]
    moved = {
        name: captures.read(process / "captures" / name, slowest_ratio=slowest_ratio)
        for name in sorted(names)
    }
    grown = [moved[each["capture"]].growth_ns(each["start_unix_ns"]) for each in samples]
    return Template(
        manifest=json.loads((process / "process.json").read_text()),
        steps=_steps(process / "steps.bin"),
        events=tuple(kept),
        lines={name: _lines(process / name) for name in _LINES},
        files={
            f"{part}/{path.name}": path.read_bytes()
            for part in ("graphs", "code")
            for path in sorted((process / part).iterdir())
        },
        captures=moved,
        sampled_ns=np.array([each["start_ns"] for each in samples], dtype=np.int64),
        grown_ns=np.array(grown, dtype=np.int64),
    )


def write(run: Path, real: Template, place: Place) -> Path:
    """Write the folder of a rank below a run directory and return it."""
    pid = 10_000 + place.rank
    started_ns = real.manifest["started_unix_ns"] + place.wall_ahead_ns
    folder = run / place.host / f"{pid}-{started_ns // 1_000_000}"
    for part in ("captures", "graphs", "code"):
        (folder / part).mkdir(parents=True)
    speeds = _speeds(real, place)
    (folder / "process.json").write_text(json.dumps(_manifest(real, place, pid, started_ns)))
    (folder / "steps.bin").write_bytes(_moved_steps(real, place, pid, speeds))
    for name, lines in {"events.jsonl": real.events, **real.lines}.items():
        moved = (json.dumps(_moved_line(each, real, place, speeds)) for each in lines)
        (folder / name).write_text("".join(f"{line}\n" for line in moved))
    for name, content in real.files.items():
        (folder / name).write_bytes(content)
    for sample in (each for each in real.events if each["event"] == "sample"):
        start_ns = sample["start_unix_ns"]
        due_ns = start_ns + _later(real, sample["start_ns"]) + place.wall_ahead_ns
        moved_capture = real.captures[sample["capture"]].moved(
            start_ns, due_ns, speeds[sample["step"]]
        )
        (folder / "captures" / sample["capture"]).write_bytes(moved_capture)
    return folder


def _speeds(real: Template, place: Place) -> dict[int, captures.Speed]:
    """Return how the rank goes through each step that is sampled."""
    turn = random.Random(place.rank)
    found = {}
    for step in (each["step"] for each in real.events if each["event"] == "sample"):
        ratio = min(max(turn.gauss(1, 0.02), 0.95), 1.08) * (place.slow_ratio or 1)
        found[step] = captures.Speed(turn.randrange(LATEST_NS), ratio, turn.randrange(LEAVES_NS))
    return found


def _manifest(real: Template, place: Place, pid: int, started_ns: int) -> dict[str, Any]:
    rank = {"source": "TF_CONFIG", "index": place.rank, "world": place.world, "role": "worker"}
    return {
        **real.manifest,
        "host": place.host,
        "pid": pid,
        "ppid": 1,
        "started_unix_ns": started_ns,
        "boot_id": place.boot_id,
        "pid_started_ticks": 1000 + place.rank,
        "rank": rank,
    }


def _moved_line(
    line: Mapping[str, Any],
    real: Template,
    place: Place,
    speeds: Mapping[int, captures.Speed],
) -> dict[str, Any]:
    moved = dict(line)
    is_sample = line.get("event") == "sample"
    for key in _MONOTONIC:
        if line.get(key) is not None:
            moved[key] = line[key] + _later(real, line[key]) + place.monotonic_ahead_ns
    for key in _WALL:
        if key in line:
            own = line["start_ns"] if key == "start_unix_ns" else line["mono_ns"]
            moved[key] = line[key] + _later(real, own) + place.wall_ahead_ns
    for key in ("start_ns", "start_unix_ns") if is_sample else ():
        moved[key] += speeds[line["step"]].late_ns
    return moved


def _later(real: Template, mono_ns: int) -> int:
    return int(real.later(np.array([mono_ns]))[0])


def _moved_steps(
    real: Template, place: Place, pid: int, speeds: Mapping[int, captures.Speed]
) -> bytes:
    words = real.steps.copy()
    words[7] = pid
    words[8] += place.wall_ahead_ns
    words[12] += int(real.grown_ns.sum()) + place.wall_ahead_ns
    words[9] += place.monotonic_ahead_ns
    for word in (19, 20):
        words[word] += _later(real, int(words[word])) + place.monotonic_ahead_ns
    turn = np.random.default_rng(place.rank)
    work_words, ring_steps = int(words[4]), int(words[5])
    for work in range(int(words[10])):
        block = words[HEADER_WORDS + work * work_words :][:work_words]
        for word in (5, 10):
            block[word] += _later(real, int(block[word])) + place.monotonic_ahead_ns
        count = min(int(block[1]), ring_steps)
        ring = block[_RING_AT : _RING_AT + 2 * count].reshape(-1, 2)
        late_ns = turn.integers(0, LATEST_NS, count)
        if work == _main_work(real):
            for step, speed in speeds.items():
                late_ns[step] = speed.late_ns
        _move_ring(ring, real, place.monotonic_ahead_ns, late_ns)
    return words.tobytes()


def _move_ring(
    ring: NDArray[np.int64], real: Template, ahead_ns: int, late_ns: NDArray[np.int64]
) -> None:
    flags = ring[:, 1] >> _FLAGS_FROM << _FLAGS_FROM
    end_ns = ring[:, 1] - flags
    ring[:, 1] = end_ns + real.later(end_ns) + ahead_ns + flags
    ring[:, 0] += real.later(ring[:, 0]) + ahead_ns + late_ns


def _main_work(real: Template) -> int:
    return next(each["work"] for each in real.events if each["event"] == "sample")


def _steps(path: Path) -> NDArray[np.int64]:
    """Return the words of a steps.bin as far as they are used, of works with whole rings."""
    with path.open("rb") as file:
        header = np.frombuffer(file.read(8 * HEADER_WORDS), dtype=np.int64)
        used = int(header[10] * header[4])
        return np.concatenate((header, np.frombuffer(file.read(8 * used), dtype=np.int64)))


def _lines(path: Path) -> tuple[Mapping[str, Any], ...]:
    if not path.exists():
        return ()
    return tuple(json.loads(line) for line in path.read_text().splitlines())
