"""A followed run is at each moment what loading it gives, and of it only what is new is read."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.captures import CPU, Node, Op, TraceEvent, graph_def, run_metadata, xspace
from tests.support.plain import plain
from tests.support.rundir import (
    BOOT_ID,
    HOST,
    LAYOUT,
    MONO_NS,
    UNIX_NS,
    UNIX_WORD,
    WrittenLoop,
    WrittenProcess,
    regular_steps,
    steps_bin,
    write_json,
    write_process,
    write_run,
)
from tfprobe.errors import NoAnswer, UnreadableInput
from tfprobe.profile.reader import captures
from tfprobe.profile.reader.run_reader import RunReader, load
from tfprobe.runs.layout import RunFolder
from tfprobe.runs.liveness import Machine
from tfprobe.runs.process_folder import events, gaps

HERE = Machine(HOST, BOOT_ID)
GRAPH = graph_def([Op("a", "MatMul")])
METADATA = "run_metadata.pb"
XSPACE = "xplane.pb"
CONTENTS = {
    METADATA: run_metadata({CPU: [Node("a", 10, 20), Node("b", 30, 20, "b = Relu()")]}),
    XSPACE: xspace({"/host:CPU": {"python": [TraceEvent("a:MatMul", 7)]}}),
}


@dataclasses.dataclass
class Job:
    """A run directory that grows as the agent would make it grow."""

    root: Path

    def process(self, pid: int) -> Path:
        (folder,) = self.root.glob(f"*/{pid}-*")
        return folder

    def begin(self, pid: int, **parts: Any) -> None:
        write_process(self.root, WrittenProcess(pid=pid, **parts))

    def step(self, pid: int, *counts: int, header: Mapping[int, int] | None = None) -> None:
        """Let each loop have so many steps; the file stays the one it was."""
        loops = [
            WrittenLoop(name=f"work{i}", kind="function", steps=regular_steps(count))
            for i, count in enumerate(counts)
        ]
        path = self.process(pid) / "steps.bin"
        path.touch()
        with path.open("r+b") as file:
            file.write(steps_bin(loops, header))

    def sample(self, pid: int, step: int, *, loop: int = 0, suffix: str = METADATA) -> None:
        """Capture a step: first under another name, then the event, then what came after it."""
        self.capture(pid, name(step, loop, suffix), CONTENTS[suffix])
        self.tell(pid, "events", sample(step, loop, suffix))
        self.tell(pid, "gaps", gap(step, loop))

    def capture(self, pid: int, file: str, content: bytes) -> None:
        folder = self.process(pid) / "captures"
        (folder / f".tmp-{file}").write_bytes(content)
        (folder / f".tmp-{file}").rename(folder / file)

    def tell(self, pid: int, log: str, line: Mapping[str, Any]) -> None:
        self.write(pid, log, json.dumps(line) + "\n")

    def write(self, pid: int, log: str, text: str) -> None:
        with (self.process(pid) / f"{log}.jsonl").open("a") as file:
            file.write(text)


def name(step: int, loop: int = 0, suffix: str = METADATA) -> str:
    return f"{step:06d}-function-{loop}.{suffix}"


def sample(step: int, loop: int = 0, suffix: str = METADATA) -> dict[str, Any]:
    return {
        "unix_ns": UNIX_NS,
        "mono_ns": MONO_NS,
        "event": "sample",
        "work": loop,
        "step": step,
        "capture": name(step, loop, suffix),
        "level": "full",
        "start_ns": MONO_NS + step * 1000,
        "end_ns": MONO_NS + step * 1000 + 100_000,
        "start_unix_ns": UNIX_NS + step * 1000,
        "plain_ns": 90_000,
        "graph": "f00d",
    }


def gap(step: int, loop: int = 0) -> dict[str, Any]:
    return {
        "work": loop,
        "step": step,
        "start_ns": MONO_NS + 100,
        "end_ns": MONO_NS + 1100,
        "cost_ns": 1,
        "cut": False,
        "calls": [[-1, 0, 1, 1, 1000]],
        "functions": [["/job.py", 1, "next_batch", False]],
    }


def activity(kind: str, start: int, end: int | None, count: int = 1) -> dict[str, Any]:
    return {
        "activity": kind,
        "name": "work0",
        "thread": "MainThread",
        "start_ns": MONO_NS + start,
        "end_ns": None if end is None else MONO_NS + end,
        "count": count,
        "total_ns": 10,
    }


def resource_sample(at: int) -> dict[str, Any]:
    return {"mono_ns": MONO_NS + at, "steps": at, "resident_bytes": 1000 + at, "load_1min": 0.5}


def machine(at: int) -> str:
    device = {"index": 0, "name": "H200", "utilization_ratio": 0.5}
    return json.dumps({"unix_ns": UNIX_NS + at, "devices": [device]}) + "\n"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job whose first process has made some steps, of which one was traced."""
    job = Job(write_run(tmp_path / "run", interpreters=[f"{HOST}\t4711\t1\t3.11.7\t/python"]))
    job.begin(4711, loops=[WrittenLoop(name="work0", kind="function")])
    job.step(4711, 20)
    job.sample(4711, 7)
    return job


def followed(job: Job, **options: Any) -> RunReader:
    return RunReader(RunFolder(job.root), HERE, **options)


def loaded(job: Job, **options: Any) -> Any:
    return plain(load(RunFolder(job.root), HERE, **options))


def begin_sibling(job: Job) -> None:
    """Start a process that stands before the first one."""
    job.begin(1234, loops=[WrittenLoop(steps=regular_steps(3))])


def begin_fork(job: Job) -> None:
    job.begin(4712, manifest={"parent": job.process(4711).name})
    job.tell(4712, "events", {"unix_ns": 1, "mono_ns": 1, "event": "fork", "parent": "x"})
    job.sample(4712, 3)


def half_a_folder(job: Job) -> None:
    (job.root / HOST / "9999-1").mkdir(exist_ok=True)
    (job.root / HOST / "9999-1" / "steps.bin").write_bytes(b"TFPSTEP1")


def whole_folder(job: Job) -> None:
    half_a_folder(job)
    write_json(job.root / HOST / "9999-1" / "process.json", {"schema": "tfprobe.process/1"})


def tell_devices(job: Job) -> None:
    path = job.process(4711) / "process.json"
    document = json.loads(path.read_text())
    document["devices"] = [{"name": "/device:CPU:0", "type": "CPU", "description": ""}]
    write_json(path.with_name(".tmp-process.json"), document)
    path.with_name(".tmp-process.json").rename(path)


def write_graph(job: Job) -> None:
    (job.process(4711) / "graphs" / "f00d.graph.pb").write_bytes(GRAPH)


def machine_file(job: Job) -> None:
    (job.root / "machine").mkdir(exist_ok=True)
    with (job.root / "machine" / f"{HOST}.jsonl").open("a") as file:
        file.write(machine(2) + machine(1))


CHANGES: dict[str, Callable[[Job], object]] = {
    "nothing": lambda _: None,
    "steps": lambda job: job.step(4711, 300),
    "more steps than the ring holds": lambda job: job.step(4711, 9000),
    "another work": lambda job: job.step(4711, 25, 4),
    "a later capture": lambda job: job.sample(4711, 9),
    "a capture before the others": lambda job: job.sample(4711, 3, loop=1),
    "a trace": lambda job: job.sample(4711, 11, suffix=XSPACE),
    "a capture without its event": lambda job: job.capture(4711, name(4), CONTENTS[METADATA]),
    "the event of a capture": lambda job: job.tell(4711, "events", sample(15)),
    "a damaged capture": lambda job: job.capture(4711, name(12), b"\xff\xff damage"),
    "a capture that is damaged later": lambda job: job.capture(4711, name(7), b""),
    "a damaged capture made whole": lambda job: job.capture(4711, name(12), CONTENTS[METADATA]),
    "half a capture": lambda job: (
        job.process(4711) / "captures" / f".tmp-7-{name(13)}"
    ).write_bytes(b"\x0a"),
    "a capture that is gone": lambda job: (job.process(4711) / "captures" / name(7)).unlink(),
    "a graph": write_graph,
    "a process before the first": begin_sibling,
    "a fork": begin_fork,
    "half a folder": half_a_folder,
    "a damaged manifest": whole_folder,
    "devices": tell_devices,
    "a gap": lambda job: job.tell(4711, "gaps", gap(8)),
    "half a gap": lambda job: job.write(4711, "gaps", json.dumps(gap(9))[:40]),
    "no gap": lambda job: job.write(4711, "gaps", '{"work": 0}\n'),
    "an activity that begins": lambda job: job.tell(4711, "activities", activity("train", 5, None)),
    "an activity that ends": lambda job: job.tell(4711, "activities", activity("train", 5, 50)),
    "traces": lambda job: job.tell(4711, "activities", activity("trace", 1, 2, count=4)),
    "no activity": lambda job: job.write(4711, "activities", "\n{}\nnonsense\n"),
    "pulses": lambda job: [job.tell(4711, "pulses", resource_sample(at)) for at in (5, 2)],
    "no pulse": lambda job: job.write(4711, "pulses", "[]\n"),
    "a machine": machine_file,
    "settings": lambda job: job.tell(
        4711, "events", {"event": "settings", "settings": {"jit": True}}
    ),
    "an error of the agent": lambda job: job.tell(
        4711, "events", {"event": "error", "where": "door", "what": "oops"}
    ),
    "no event": lambda job: job.write(4711, "events", "nonsense\n\n"),
    "another log": lambda job: (job.process(4711) / "events.jsonl").write_text(
        json.dumps(sample(7)) + "\n"
    ),
    "no log": lambda job: (job.process(4711) / "gaps.jsonl").unlink(),
    "another steps file": lambda job: (job.process(4711) / "steps.bin").write_bytes(
        steps_bin([WrittenLoop(steps=regular_steps(2))], {UNIX_WORD: UNIX_NS + 5})
    ),
    "half a steps file": lambda job: os.truncate(job.process(4711) / "steps.bin", 5000),
    "no steps file": lambda job: (job.process(4711) / "steps.bin").unlink(),
    "an interpreter": lambda job: (job.root / "boot" / "interpreters.tsv").write_text(
        f"{HOST}\t1\t1\t3.11.7\t/python\n{HOST}\t2\t1\t3.6.9\t/python\n"
    ),
    "no manifest": lambda job: (job.root / "run.json").unlink(),
    "an exit": lambda job: job.step(
        4711, 40, header={LAYOUT.STATE_WORD: LAYOUT.FINISHED, LAYOUT.EXIT_WORD: UNIX_NS + 9}
    ),
    "a process that is gone": lambda job: shutil.rmtree(job.process(4711)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_after_any_change_the_profile_is_the_loaded_one(job: Job, change: str) -> None:
    """Whatever happens to a run, following it tells what `tfprobe report` would tell anew."""
    following = followed(job)
    following.refresh()

    CHANGES[change](job)

    assert plain(following.refresh()) == loaded(job)


def test_all_changes_one_after_the_other_are_followed(job: Job) -> None:
    """From the first step to the end of the job."""
    following = followed(job)
    for change in list(CHANGES.values())[:-1]:
        change(job)

        assert plain(following.refresh()) == loaded(job)


def test_what_was_given_stays_as_it_was(job: Job) -> None:
    """A profile that somebody holds does not change under their hands."""
    following = followed(job)
    profiles = []
    for change in (CHANGES["a later capture"], CHANGES["a trace"], CHANGES["a fork"]):
        profile = following.refresh()
        profiles.append((profile, plain(profile)))
        change(job)
    following.refresh()

    assert [plain(profile) for profile, _ in profiles] == [before for _, before in profiles]


def test_where_nothing_is_new_the_profile_is_the_very_same(job: Job) -> None:
    """Whoever draws it need not draw it again."""
    machine_file(job)
    begin_fork(job)
    job.tell(4711, "activities", activity("trace", 1, 2, count=4))
    following = followed(job)

    assert following.refresh() is following.refresh()


def test_captures_are_decoded_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following a job that samples for days costs no more the longer it lasts."""
    decoded: list[str] = []
    decode_all = captures.Decoder.decode_all

    def noted(self: captures.Decoder, wanted: list[captures.Wanted]) -> Any:
        decoded.extend(each.name for each in wanted)
        return decode_all(self, wanted)

    monkeypatch.setattr(captures.Decoder, "decode_all", noted)
    following = followed(job)
    job.capture(4711, name(8), b"\xff\xff damage")
    for step in (9, 11):
        following.refresh()
        job.sample(4711, step)
    following.refresh()

    assert decoded == [name(7), name(8), name(9), name(11)]


def test_a_capture_is_decoded_again_when_its_event_comes(job: Job) -> None:
    """The agent writes the file first: a reader may come between."""
    job.capture(4711, name(9), CONTENTS[METADATA])
    following = followed(job)
    before = following.refresh()
    job.tell(4711, "events", sample(9))

    after = following.refresh()

    assert [each.level for each in before.captures] == ["full", "unknown"]
    assert [each.level for each in after.captures] == ["full", "full"]


def test_lines_are_parsed_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that grows, what was read is not read again."""
    parsed: list[bytes] = []
    for module, parse in ((events, "_event"), (gaps, "_line")):
        original = getattr(module, parse)

        def noted(line: bytes, original: Any = original, **clock: int) -> Any:
            parsed.append(line)
            return original(line, **clock)

        monkeypatch.setattr(module, parse, noted)
    following = followed(job)
    for step in (9, 11):
        following.refresh()
        job.sample(4711, step)
    following.refresh()

    assert len(parsed) == len(set(parsed)) == 6


def test_progress_is_told_of_new_captures_alone(job: Job) -> None:
    """A bar that is drawn for them ends at its end."""
    following = followed(job)
    following.refresh()
    for step in (9, 11):
        job.sample(4711, step)
    told: list[tuple[int, int]] = []

    following.refresh(lambda done, count: told.append((done, count)))

    assert told == [(1, 2), (2, 2)]


def test_one_rank_can_be_followed(job: Job) -> None:
    """Of a distributed job, before the rank is there and after."""
    following = followed(job, rank=1)
    with pytest.raises(NoAnswer):
        following.refresh()
    rank = {"source": "TF_CONFIG", "index": 1, "world": 2, "role": "worker"}
    job.begin(5000, manifest={"rank": rank})
    job.sample(5000, 2)

    assert plain(following.refresh()) == loaded(job, rank=1)


def test_a_run_can_be_followed_without_its_captures(job: Job) -> None:
    """Steps and processes alone, for those who need no more."""
    following = followed(job, with_captures=False)
    following.refresh()
    begin_fork(job)

    assert plain(following.refresh()) == loaded(job, with_captures=False)


def test_a_run_that_vanishes_is_an_error(job: Job) -> None:
    """It says which, and that it was there."""
    following = followed(job)
    following.refresh()
    shutil.rmtree(job.root)

    with pytest.raises(UnreadableInput, match=r"run no longer exists\. It was removed"):
        following.refresh()
