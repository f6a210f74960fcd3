"""Read the sampled stacks of a process into frames, call paths and rows on the wall clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfprobe.profile.activities import (
    NO_STACK,
    Int64s,
    SampledChunk,
    SampledFrame,
    SampledThread,
    StackSamples,
)
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.process_folder.stack_samples import (
    RefusalRecord,
    StackRecord,
    ThreadRecord,
    stack_log,
)

# More bad reads in a row are genuine: a stack that is read while it changes may lack outer frames.
_MOST_TORN = 3
# Replaces what a damaged line contained.
LOST = SampledFrame("", 0, "(lost)")


class ProcessStacks:
    """The stacks of one process, read repeatedly."""

    def __init__(self, folder: ProcessFolder) -> None:
        """Start with nothing read."""
        self._log = stack_log(folder.stacks)
        self._made_by: tuple[int, int] = (0, 0)
        self._tables = _Tables()
        self._stacks: StackSamples | None = None

    @property
    def bad_lines(self) -> int:
        """Return the number of lines that could not be read."""
        return self._log.bad_lines

    def read(self, process: int, shift_ns: int) -> StackSamples | None:
        """Read what is new and return all stacks; None if none were sampled.

        `shift_ns` is unix time minus monotonic time.
        """
        if (process, shift_ns) != self._made_by:
            self._made_by = (process, shift_ns)
            self._log.restart()
        news = self._log.read()
        if news.is_from_start:
            self._tables, self._stacks = _Tables(), None
        if news.things:
            self._tables.add(news.things)
            self._stacks = self._tables.stacks(process, shift_ns)
        return self._stacks


class _Tables:
    """The frames and call paths of all lines, each once, and rows of stacks as written."""

    def __init__(self) -> None:
        self._frames: dict[SampledFrame, int] = {}
        self._known: list[SampledFrame] = []
        self._nodes: dict[tuple[int, int], int] = {}
        # The file and function of each node's outermost frame.
        self._roots: list[tuple[str, str]] = []
        self._threads: dict[SampledThread, int] = {}
        # Positions in the file -> ours.
        self._frame_at: list[int] = []
        self._node_at: list[int] = []
        self._rows: list[tuple[Int64s, Int64s, Int64s, Int64s, Int64s]] = []
        self._chunks: list[SampledChunk] = []
        self._refusals: list[str] = []

    def add(self, records: Sequence[StackRecord | RefusalRecord]) -> None:
        """Add lines, in the order of the file."""
        for record in records:
            if isinstance(record, RefusalRecord):
                self._refusals.append(record.problem)
                continue
            self._learn(record)
            chunk = SampledChunk(
                record.start_ns, record.end_ns, record.rate_per_s,
                record.samples, record.errors, record.cost_ns,
            )  # fmt: skip
            rows = [self._thread(chunk, thread) for thread in record.threads if len(thread.nodes)]
            self._end_before(chunk.start_ns)
            self._chunks.append(chunk)
            self._rows += rows

    def stacks(self, process: int, shift_ns: int) -> StackSamples:
        """Return everything added."""
        none = np.empty(0, dtype=np.int64)
        columns = zip(*self._rows, strict=True) if self._rows else ([none],) * 5
        thread, nodes, read_ns, start_ns, end_ns = (np.concatenate(column) for column in columns)
        paths = np.array(list(self._nodes), dtype=np.int64).reshape(-1, 2)
        shifted = (
            chunk._replace(start_ns=chunk.start_ns + shift_ns, end_ns=chunk.end_ns + shift_ns)
            for chunk in self._chunks
        )
        return StackSamples(
            process=process,
            frames=tuple(self._frames),
            callers=paths[:, 0],
            frame_of=paths[:, 1],
            threads=tuple(self._threads),
            thread=thread,
            nodes=nodes,
            read_ns=read_ns + shift_ns,
            start_ns=start_ns + shift_ns,
            end_ns=end_ns + shift_ns,
            chunks=tuple(shifted),
            refusals=tuple(dict.fromkeys(self._refusals)),
        )

    def _learn(self, record: StackRecord) -> None:
        """Add what is new in a line; what was in lost lines becomes LOST."""
        if record.frames_from == 0 and record.nodes_from == 0:
            self._frame_at, self._node_at = [], []
        self._pad(record)
        for frame in record.frames:
            self._frame_at.append(self._frame(SampledFrame(*frame)))
        for caller, number in record.nodes:
            above = NO_STACK if caller == NO_STACK else self._node_at[caller]
            self._node_at.append(self._node(above, self._frame_at[number]))

    def _pad(self, record: StackRecord) -> None:
        del self._frame_at[record.frames_from :], self._node_at[record.nodes_from :]
        if missing := record.frames_from - len(self._frame_at):
            self._frame_at += [self._frame(LOST)] * missing
        if missing := record.nodes_from - len(self._node_at):
            self._node_at += [self._node(NO_STACK, self._frame(LOST))] * missing

    def _frame(self, frame: SampledFrame) -> int:
        number = self._frames.setdefault(frame, len(self._frames))
        if number == len(self._known):
            self._known.append(frame)
        return number

    def _node(self, caller: int, frame: int) -> int:
        node = self._nodes.setdefault((caller, frame), len(self._nodes))
        if node == len(self._roots):
            outermost = self._known[frame]
            own = (outermost.file, outermost.function)
            self._roots.append(own if caller == NO_STACK else self._roots[caller])
        return node

    def _thread(
        self, chunk: SampledChunk, record: ThreadRecord
    ) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        number = self._threads.setdefault(SampledThread(record.id, record.name), len(self._threads))
        ours = np.array([*self._node_at, NO_STACK], dtype=np.int64)
        whole = self._whole(ours[record.nodes].tolist())
        nodes = ours[record.nodes][whole]
        read_ns = np.minimum(chunk.start_ns + record.at_us[whole] * 1000, chunk.end_ns)
        before_ns = np.diff(read_ns, prepend=read_ns[:1])
        start_ns = read_ns - np.minimum(before_ns, 1_000_000_000 // chunk.rate_per_s) // 2
        end_ns = np.append(start_ns[1:], chunk.end_ns)
        return np.full(len(read_ns), number), nodes, read_ns, start_ns, end_ns

    def _whole(self, nodes: Sequence[int]) -> list[int]:
        """Return the rows of stacks that were read completely, judged by their outermost frame.

        That frame cannot change and come back: a stack in between that has another one, or none,
        was read while it changed, and counts as a failed read.
        """
        roots = [None if node == NO_STACK else self._roots[node] for node in nodes]
        kept: list[int] = []
        for at, root in enumerate(roots):
            before = roots[kept[-1]] if kept else root
            is_torn = root != before and before in roots[at + 1 : at + 1 + _MOST_TORN]
            if not is_torn or before is None:
                kept.append(at)
        return kept

    def _end_before(self, start_ns: int) -> None:
        """End the previous chunk where the next one starts: their readers overlap."""
        if not self._chunks or self._chunks[-1].end_ns <= start_ns:
            return
        self._chunks[-1] = self._chunks[-1]._replace(
            end_ns=max(start_ns, self._chunks[-1].start_ns)
        )
        for at in range(len(self._rows) - 1, -1, -1):
            thread, nodes, read_ns, begin_ns, end_ns = self._rows[at]
            if not len(end_ns) or end_ns[-1] <= start_ns:
                break
            cut = np.minimum(begin_ns, start_ns), np.minimum(end_ns, start_ns)
            self._rows[at] = (thread, nodes, read_ns, *cut)
