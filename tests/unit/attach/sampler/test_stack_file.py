"""What the sampler writes is what the reader reads, and it is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfprobe.attach.sampler import stack_file
from tfprobe.attach.sampler.stack_file import Chunk, Read, StackFile, ThreadReads
from tfprobe.profile.activities import NO_STACK, SampledFrame, StackSamples
from tfprobe.profile.reader.samples import ProcessStacks
from tfprobe.runs.layout import ProcessFolder

MAIN = SampledFrame("/job.py", 3, "main")
STEP = SampledFrame("/job.py", 7, "step")
GAP = SampledFrame("/job.py", 9, "gap")


def chunk(start_ns: int, *reads: Read, end_ns: int | None = None) -> Chunk:
    end_ns = start_ns + 1_000_000 if end_ns is None else end_ns
    thread = ThreadReads(77, "MainThread", list(reads))
    return Chunk(start_ns, end_ns, 20, len(reads), 1, 5, (thread,))


def read_back(folder: Path, shift_ns: int = 0) -> StackSamples:
    stacks = ProcessStacks(ProcessFolder(folder)).read(0, shift_ns)
    assert stacks is not None
    return stacks


def paths(stacks: StackSamples) -> list[list[str]]:
    """The functions of each row, outermost first."""
    found = []
    for node in stacks.nodes.tolist():
        names: list[str] = []
        while node != NO_STACK:
            names.insert(0, stacks.frames[int(stacks.frame_of[node])].function)
            node = int(stacks.callers[node])
        found.append(names)
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Frames and paths of an earlier line are not written again."""
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    file.append(chunk(1_000_000, Read(0, (MAIN, STEP)), Read(400, (MAIN, GAP))))
    file.append(chunk(2_000_000, Read(0, (MAIN, GAP)), Read(500, None)))
    file.close()

    stacks = read_back(tmp_path, shift_ns=10)

    assert paths(stacks) == [["main", "step"], ["main", "gap"], ["main", "gap"], []]
    assert stacks.read_ns.tolist() == [1_000_010, 1_400_010, 2_000_010, 2_500_010]
    assert stacks.end_ns.tolist()[-1] == 3_000_010
    assert [each.samples for each in stacks.chunks] == [2, 2]
    second = (tmp_path / "stacks.jsonl").read_text().splitlines()[1]
    assert "job.py" not in second


def test_a_stack_changes_between_two_samples(tmp_path: Path) -> None:
    """Half a sample before it was read: 25 ms at 20 a second, or half of what there was."""
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    second_ns = 1_000_000_000
    reads = (Read(0, (MAIN,)), Read(500_000, (MAIN, STEP)), Read(510_000, (MAIN, GAP)))
    file.append(chunk(0, *reads, end_ns=second_ns))
    file.close()

    stacks = read_back(tmp_path)

    ms = 1_000_000
    assert stacks.start_ns.tolist() == [0, 475 * ms, 505 * ms]
    assert stacks.end_ns.tolist() == [475 * ms, 505 * ms, second_ns]


def test_of_two_readers_the_later_one_holds(tmp_path: Path) -> None:
    """They overlap by some ms, which count once."""
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    file.append(chunk(0, Read(0, (MAIN, STEP)), Read(900, (MAIN, GAP)), end_ns=1_000_000))
    file.append(chunk(800_000, Read(0, (MAIN,)), end_ns=2_000_000))
    file.close()

    stacks = read_back(tmp_path)

    assert (stacks.end_ns - stacks.start_ns).sum() == 2_000_000
    assert stacks.lasted_ns == 2_000_000


def test_a_stack_without_its_outer_frames_counts_as_a_failed_sample(tmp_path: Path) -> None:
    """It was read while it changed: the outermost frame cannot go and be there again."""
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    reads = [Read(0, (MAIN, STEP)), Read(100, (GAP,)), Read(200, None), Read(300, (MAIN, GAP))]
    file.append(chunk(0, *reads))
    file.close()

    assert paths(read_back(tmp_path)) == [["main", "step"], ["main", "gap"]]


def test_a_full_file_takes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a job runs."""
    monkeypatch.setattr(stack_file, "MOST_BYTES", 100)
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    for at in range(5):
        file.append(chunk(at * 1_000_000, Read(0, (MAIN,))))
    file.close()

    assert len(read_back(tmp_path).chunks) == 1


def test_more_functions_than_there_is_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack ends at what is known."""
    monkeypatch.setattr(stack_file, "MOST_FRAMES", 2)
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    file.append(chunk(0, Read(0, (MAIN, STEP, GAP)), Read(5, (MAIN, GAP))))
    file.close()

    assert paths(read_back(tmp_path)) == [["main", "step"], ["main"]]


def test_why_nothing_could_be_read_is_kept(tmp_path: Path) -> None:
    """As the program said it."""
    file = StackFile(tmp_path, tmp_path / "stacks.jsonl")
    file.note(5, "py-spy: Permission denied")
    file.close()

    stacks = read_back(tmp_path)

    assert (stacks.refusals, stacks.count, stacks.rates_per_s) == (
        ("py-spy: Permission denied",), 0, (0, 0),
    )  # fmt: skip
