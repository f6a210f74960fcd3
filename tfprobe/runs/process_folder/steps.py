"""Read steps.bin, also while its process writes it, and after a kill at any moment.

docs/run-directory.md fixes the layout. A reader trusts nothing in the file: it checks every number
against the size of the file before it uses it. Repeated reads read what is new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tfprobe.errors import UnreadableInput
from tfprobe.profile.profile import Loop
from tfprobe.runs.process_folder.loop_block import KnownLoop, read_loop
from tfprobe.runs.process_folder.steps_layout import (
    BUCKETS,
    HEADER_WORDS,
    LAYOUT_VERSION,
    LOOP_CAPACITY,
    LOOP_WORDS,
    MAGIC,
    RING_STEPS,
    AgentState,
    EndingRecord,
    Header,
    WordFile,
    integers,
    loop_at,
    opened,
)

# Words of the header that hold a time, and a time that is beyond the year 2100 on either clock.
_TIMES = (8, 9, 12, 19, 20, 23)
_NO_TIME_NS = 1 << 62
# Word 25: a status that is known, shifted by 16 bits, ends with this; see docs/run-directory.md.
_STATUS_MARK = 0x330E
_STATUS_FOLLOWS = 1
# Why steps were counted and not timed.
COULD_NOT_GROW = "steps.bin could not grow (the disk was full, or the job closed the file)"


@dataclass(frozen=True, slots=True)
class StepsGlance:
    """What a listing shows of one steps.bin.

    `steps` are completed ones, of all loops, and those that were counted without their times.
    """

    header: Header
    steps: int
    written_unix_ns: int


@dataclass(frozen=True, slots=True)
class StepsFile:
    """Everything read from one steps.bin: its loops as those of process 0.

    `problems` says what could not be used.
    """

    header: Header
    loops: tuple[Loop, ...]
    problems: tuple[str, ...]

    @property
    def last_sign_mono_ns(self) -> int:
        """Return when the process last noted anything; its header is up to 1024 steps behind."""
        ends = (int(loop.recent.end_ns[-1]) for loop in self.loops if len(loop.recent.end_ns))
        return max((self.header.last_activity_mono_ns, *ends))


class StepsReader:
    """Read one steps.bin again and again: an answer is a whole one, and only news are read for it.

    The file is opened each time: one that is kept open would not tell that it was removed or
    replaced, nor, on a network, what is new in it.
    """

    def __init__(self, path: Path, *, keep_steps: int = RING_STEPS) -> None:
        """Remember of each loop its latest `keep_steps` steps, if the file still has them."""
        self._path = path
        self._keep_steps = keep_steps
        self._identity: tuple[int, ...] = ()
        self._size = 0
        self._known: dict[int, KnownLoop] = {}

    def read(self) -> StepsFile:
        """Return header and works as they are now.

        Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
        """
        loops: list[Loop] = []
        problems: list[str] = []
        with opened(self._path) as file:
            header = _header(file)
            self._forget_another(file, header)
            for index in range(header.loops_in_use):
                block = self._loop(file, header, index)
                if isinstance(block, Loop):
                    loops.append(block)
                else:
                    problems.append(f"{self._path.name}: work {index} {block}")
        problems.extend(_untimed(header))
        return StepsFile(header, tuple(loops), tuple(problems))

    def _forget_another(self, file: WordFile, header: Header) -> None:
        # The number of a removed file is soon given to another, so its process counts, too.
        identity = (*file.identity(), header.pid, header.moment_unix_ns, header.started_mono_ns)
        size, before = file.size(), self._size
        if identity != self._identity or size < before:
            self._known.clear()
        self._identity, self._size = identity, size

    def _loop(self, file: WordFile, header: Header, index: int) -> Loop | str:
        block = read_loop(file, header, index, self._known.pop(index, None), self._keep_steps)
        if isinstance(block, str):
            return block
        self._known[index] = block
        return block.loop


class LoopsOfProcess:
    """Loops with the number of their process; one that has not changed stays the same object."""

    def __init__(self) -> None:
        """Begin with no loops."""
        # By the identity of the loop that was read, which is kept so that no other can have it.
        self._loops: dict[int, tuple[Loop, Loop]] = {}

    def numbered(self, loops: Iterable[Loop], process: int) -> tuple[Loop, ...]:
        """Return these loops of process 0 as loops of `process`."""
        before = self._loops
        self._loops = {}
        for loop in loops:
            _, numbered = before.get(id(loop), (loop, loop))
            if numbered.process != process:
                numbered = replace(loop, process=process)
            self._loops[id(loop)] = loop, numbered
        return tuple(numbered for _, numbered in self._loops.values())


def read_steps(path: Path) -> StepsFile:
    """Read header and works.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    return StepsReader(path).read()


def read_header(path: Path) -> Header:
    """Read the process-wide words only.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with opened(path) as file:
        return _header(file)


def bytes_in_use(path: Path) -> int:
    """Return how much of the file means anything: works that are not in use are zeros, and may go.

    Of what is no steps.bin of layout 1 that is all.
    """
    try:
        return 8 * loop_at(read_header(path).loops_in_use)
    except UnreadableInput:
        return path.stat().st_size


def count_steps(path: Path) -> int:
    """Return the completed steps of all loops without reading their times.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with opened(path) as file:
        return _completed(file, _header(file))


def read_glance(path: Path) -> StepsGlance:
    """Read what a listing shows, by opening the file once.

    Raises UnreadableInput when the file is absent or is no steps.bin of layout 1.
    """
    with opened(path) as file:
        header = _header(file)
        return StepsGlance(header, _completed(file, header), file.written_unix_ns())


def _header(file: WordFile) -> Header:
    words = integers(file.words(0, HEADER_WORDS))
    if len(words) < HEADER_WORDS or words[0] != MAGIC:
        hint = (
            "The disk was full or failed, the process was killed while it made the file, or the "
            "file was overwritten."
        )
        raise UnreadableInput(f"{file.path} is not a steps.bin.", hint=hint)
    # The capacity of loops is smaller where the agent could not map the file.
    expected = [LAYOUT_VERSION, HEADER_WORDS, words[3], LOOP_WORDS, RING_STEPS, BUCKETS]
    if words[1:7] != expected or not 0 < words[3] <= LOOP_CAPACITY:
        hint = "Read it with the version of tfprobe that recorded it."
        raise UnreadableInput(f"{file.path} has another layout: {words[1:7]}.", hint=hint)
    if not all(0 <= words[at] < _NO_TIME_NS for at in _TIMES):
        hint = "The file was overwritten."
        raise UnreadableInput(f"{file.path} has impossible times in its header.", hint=hint)
    state = words[11] if words[11] in (1, 2, 3) else 1
    ending = words[24] if words[24] in (1, 2, 3, 4) else 0
    return Header(
        pid=words[7],
        moment_unix_ns=words[8],
        moment_mono_ns=words[9],
        loops_in_use=min(max(words[10], 0), words[3]),
        state=AgentState(state),
        exit_unix_ns=words[12],
        hook_calls_measured=words[13],
        hook_measured_ns=words[14],
        fold_ns=words[15],
        captures_written=words[16],
        traced_ns=words[17],
        once_ns=words[18],
        started_mono_ns=words[19],
        last_activity_mono_ns=words[20],
        request_sequence=words[32],
        request_seen=words[40],
        request_left=words[41],
        ending=EndingRecord(ending),
        exit_status=_exit_status(words[25]),
        status_follows=words[25] == _STATUS_FOLLOWS,
        untimed_steps=max(words[21], 0),
        untimed_threads=max(words[22], 0),
        exit_mono_ns=words[23],
    )


def _exit_status(word: int) -> int | None:
    """Return what a parent sees of an exit status, which is its last byte; None before the end."""
    return (word >> 16) & 0xFF if word & 0xFFFF == _STATUS_MARK else None


def _untimed(header: Header) -> list[str]:
    """Return what to say of steps that were counted, and had no room in the file."""
    steps, threads = header.untimed_steps, max(header.untimed_threads, 1)
    if not steps:
        return []
    of = f"{steps:,} step{'s' * (steps > 1)} of {threads:,} thread{'s' * (threads > 1)}"
    were = "were" if steps > 1 else "was"
    return [f"{of} {were} not timed: {COULD_NOT_GROW}"]


def _completed(file: WordFile, header: Header) -> int:
    heads = (file.words(loop_at(index), 4) for index in range(header.loops_in_use))
    return header.untimed_steps + sum(max(int(h[1] - h[2]), 0) for h in heads if len(h) == 4)
