"""Write run directories as docs/run-directory.md describes them, for tests of the readers."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.agent import load

# The agent's own layout: what it writes is what the readers are tested with.
LAYOUT = load("core.steps_layout")
HEADER_WORDS, RING_STEPS, BUCKETS = LAYOUT.HEADER_WORDS, LAYOUT.RING_STEPS, LAYOUT.BUCKETS
LOOP_WORDS, SLOT_WORDS = LAYOUT.LOOP_WORDS, LAYOUT.AGGREGATE_WORDS
# Words of the header that the agent writes in a row and therefore has no names for.
VERSION_WORD, CAPACITY_WORD, PID_WORD, UNIX_WORD, MONO_WORD = 1, 3, 7, 8, 9
# The agent folds every 1024 steps; folding more often makes tests of folds short.
FOLD_EVERY = 256

HOST = "node7"
BOOT_ID = "0d5b1cf1-test"
UNIX_NS = 1_795_205_058_000_000_000
MONO_NS = 5_000_000_000


@dataclass
class WrittenLoop:
    """A loop to write: its steps as (start, end) in monotonic ns, in order."""

    kind: str = "session_run"
    name: str = "loss,train_op"
    steps: Sequence[tuple[int, int]] = ()
    raised: Sequence[int] = ()
    sampled: Sequence[int] = ()
    thread: str = "MainThread"
    retraces: int = 0
    steps_per_execution: int = 1
    folds: bool = True


@dataclass
class WrittenProcess:
    """A process to write; `header` overrides single header words."""

    pid: int = 4711
    host: str = HOST
    loops: Sequence[WrittenLoop] = ()
    header: Mapping[int, int] = field(default_factory=dict)
    manifest: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ()
    gaps: Sequence[Mapping[str, Any]] = ()
    captures: Mapping[str, bytes] = field(default_factory=dict)
    graphs: Mapping[str, bytes] = field(default_factory=dict)
    code: Mapping[str, bytes] = field(default_factory=dict)


def write_run(
    root: Path,
    processes: Sequence[WrittenProcess] = (),
    *,
    manifest: Mapping[str, Any] | None = None,
    interpreters: Sequence[str] = (),
) -> Path:
    """Write a whole run directory at `root` and return it."""
    (root / "boot").mkdir(parents=True)
    config = {"steps": None, "every": None, "budget": 0.01, "trace_level": "full"}
    document = {
        "schema": "tfprobe.run/1",
        "id": root.name,
        "command": ["python", "train.py", "--epochs", "3"],
        "cwd": "/home/ada",
        "host": HOST,
        "user": "ada",
        "pid": 4711,
        "boot_id": BOOT_ID,
        "started_unix_ns": UNIX_NS,
        "started": "2026-11-20T20:04:18+00:00",
        "tfprobe": "0.1.0",
        "config": config,
        "environment": {},
    }
    document.update(manifest or {})
    write_json(root / "run.json", document)
    write_json(root / "boot" / "config.json", {"schema": "tfprobe.config/1", **config})
    (root / "boot" / "interpreters.tsv").write_text("".join(f"{line}\n" for line in interpreters))
    for process in processes:
        write_process(root, process)
    return root


def write_process(root: Path, process: WrittenProcess) -> Path:
    """Write one process folder below a run directory and return it."""
    folder = root / process.host / f"{process.pid}-{UNIX_NS // 1_000_000}"
    if folder.exists():
        folder = folder.with_name(f"{folder.name}-2")
    (folder / "captures").mkdir(parents=True)
    document = {
        "schema": "tfprobe.process/1",
        "host": process.host,
        "pid": process.pid,
        "ppid": 1,
        "started_unix_ns": UNIX_NS,
        "parent": None,
        "boot_id": BOOT_ID,
        "pid_started_ticks": 1234,
        "argv": ["train.py"],
        "executable": "/usr/bin/python3",
        "prefix": "/usr",
        "python": "3.11.7",
        "implementation": "cpython",
        "tensorflow": "2.21.0",
        "keras": "3.15.1",
        "wrapt": "2.5.2",
        "devices": None,
        "rank": None,
        "uid": 1000,
        "agent": 1,
    }
    document.update(process.manifest)
    write_json(folder / "process.json", document)
    (folder / "steps.bin").write_bytes(steps_bin(process.loops, process.header))
    lines = (json.dumps({"unix_ns": UNIX_NS, "mono_ns": MONO_NS, **e}) for e in process.events)
    (folder / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if process.gaps:
        (folder / "gaps.jsonl").write_text("".join(f"{json.dumps(gap)}\n" for gap in process.gaps))
    for part in ("captures", "graphs", "code"):
        (folder / part).mkdir(exist_ok=True)
        for name, content in getattr(process, part).items():
            (folder / part / name).write_bytes(content)
    return folder


def steps_bin(loops: Sequence[WrittenLoop], header: Mapping[int, int] | None = None) -> bytes:
    """Return the bytes of a steps.bin, as long as its works in use need."""
    words = [0] * HEADER_WORDS
    words[0] = LAYOUT.MAGIC
    sizes = [HEADER_WORDS, LAYOUT.LOOP_CAPACITY, LOOP_WORDS, RING_STEPS, BUCKETS]
    words[1:8] = [LAYOUT.LAYOUT_VERSION, *sizes, 4711]
    words[UNIX_WORD], words[MONO_WORD] = UNIX_NS, MONO_NS
    words[LAYOUT.USED], words[LAYOUT.STATE_WORD] = len(loops), LAYOUT.RUNNING
    words[LAYOUT.STARTED_WORD] = MONO_NS
    words[LAYOUT.ACTIVE_WORD] = MONO_NS + 60_000_000_000
    for word, value in (header or {}).items():
        words[word] = value
    return b"".join([_packed(words), *(_loop(loop) for loop in loops)])


def regular_steps(count: int, *, step_ns: int = 1_000_000, gap_ns: int = 100_000) -> Any:
    """Return `count` steps of one length with one gap between them."""
    period_ns = step_ns + gap_ns
    return [(MONO_NS + i * period_ns, MONO_NS + i * period_ns + step_ns) for i in range(count)]


def bucket(duration_ns: int) -> int:
    """Return the histogram bucket of the contract, computed the slow way."""
    (bits,) = struct.unpack("<q", struct.pack("<d", float(max(duration_ns, 1))))
    return min((bits >> 48) - (1023 << 4), int(BUCKETS) - 1)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write one JSON file."""
    path.write_text(json.dumps(document))


def _loop(loop: WrittenLoop) -> bytes:
    words = [0] * LOOP_WORDS
    steps = list(loop.steps)
    folded = len(steps) // FOLD_EVERY * FOLD_EVERY if loop.folds else 0
    active = (folded // FOLD_EVERY) % 2
    words[LAYOUT.KIND] = LAYOUT.KINDS.index(loop.kind)
    words[LAYOUT.COUNT] = len(steps)
    words[LAYOUT.RAISED] = len(loop.raised)
    words[LAYOUT.TRACED] = len(loop.sampled)
    words[LAYOUT.THREAD_ID] = 77
    words[LAYOUT.FIRST_SEEN] = steps[0][0] if steps else 0
    words[LAYOUT.PER_EXECUTION] = loop.steps_per_execution
    words[LAYOUT.OPTIMIZER_STEPS] = -1
    words[LAYOUT.SLOT] = active
    words[LAYOUT.RETRACES] = loop.retraces
    _put(words, LAYOUT.NAME_AT, _text(loop.name, LAYOUT.NAME_WORDS))
    _put(words, LAYOUT.THREAD_NAME_AT, _text(loop.thread, LAYOUT.THREAD_NAME_WORDS))
    _put(words, LAYOUT.AGGREGATES_AT + active * SLOT_WORDS, _slot(steps[:folded]))
    for number, (start, end) in enumerate(steps):
        if number >= len(steps) - RING_STEPS:
            flags = LAYOUT.TRACED_FLAG if number in loop.sampled else 0
            flags |= LAYOUT.RAISED_FLAG if number in loop.raised else 0
            _put(words, LAYOUT.RING_AT + 2 * (number % RING_STEPS), [start, end | flags])
    return _packed(words)


def _put(words: list[int], offset: int, values: Sequence[int]) -> None:
    words[offset : offset + len(values)] = values


def _slot(steps: Sequence[tuple[int, int]]) -> list[int]:
    durations = [end - start for start, end in steps]
    gaps = [b[0] - a[1] for a, b in itertools.pairwise(steps)]
    words = [*_facts(durations), *_facts(gaps)]
    for values in (durations, gaps):
        counts = [0] * BUCKETS
        for value in values:
            counts[bucket(value)] += 1
        words += counts
    return words


def _facts(values: Sequence[int]) -> list[int]:
    return [len(values), sum(values), min(values, default=0), max(values, default=0)]


def _text(text: str, words: int) -> list[int]:
    content = text.encode()[: words * 8].ljust(words * 8, b"\0")
    return list(struct.unpack(f"<{words}q", content))


def _packed(words: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(words)}q", *words)
