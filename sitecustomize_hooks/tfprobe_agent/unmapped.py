"""Keep steps.bin up to date by plain writes, where a page fault in a mapping of it could end or stop the job.

A page of a mapped file may be read and written back at any store into it. Where a server does that, and fails, the
kernel ends the process by SIGBUS; an error of a write is one that can be answered. The words are in memory, and a step
that looks at the control word writes what is new of them.
"""

from .interruptions import let_through
from .originals import ORIGINAL, read_file
from .steps_layout import (
    AGGREGATE_WORDS,
    AGGREGATES_AT,
    COUNT,
    HEAD_WORDS,
    HEADER_WORDS,
    ONCE_NS,
    OWN_HEADER,
    POLL_NS,
    REFUSED_NS,
    REQUEST,
    RING_AT,
    RING_MASK,
    RING_STEPS,
    SLOT,
    USED,
    WORD,
    WORK_WORDS,
)  # fmt: skip

# File systems whose pages come from a server, another machine or another process. Also all of type "fuse.x".
REMOTE = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "gfs2", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
        "wekafs",
    )
)  # fmt: skip
# Writing may take this part of the time: a slow disk is written less often.
SHARE = 100
# While a thread writes, no other one does; for so long, should an exception of the job end the writing unnoticed.
CLAIM_NS = 600 * 1000 * 1000 * 1000
MOUNTS_BYTES = 16 << 20


def is_remote(descriptor):
    """Tell whether an open file is on a file system whose page faults may fail or wait; False where nobody tells."""
    try:
        facts = read_file("/proc/self/fdinfo/%d" % descriptor).split()
        mount = facts[facts.index(b"mnt_id:") + 1]
        for line in read_file("/proc/self/mountinfo", MOUNTS_BYTES).split(b"\n"):
            if line.split(b" ", 1)[0] == mount:
                kind = line.partition(b" - ")[2].split(b" ")[0].decode("ascii", "replace")
                return kind in REMOTE or kind.startswith("fuse.")
    except (OSError, ValueError, IndexError):
        let_through()  # no /proc here
    return False


class Exchange:
    """What of the words in memory is in the file already, and when the next write is due."""

    def __init__(self, file, words):
        self._file = file
        self._words = words
        self._due_ns = 0
        self._header = {}  # parts of the header as they were written, by their first word
        self._works = {}  # of each work as it was written: its first words, and how many steps its aggregate has

    def look(self, now_ns):
        """Write what is new and read what others write, unless that was done a moment ago."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + CLAIM_NS
        pause_ns = REFUSED_NS
        try:
            if self.write():
                self._read_control()
                cost_ns = ORIGINAL.monotonic_ns() - now_ns
                self._words[ONCE_NS] += cost_ns
                pause_ns = max(POLL_NS, SHARE * cost_ns)
        finally:
            self._due_ns = ORIGINAL.monotonic_ns() + pause_ns

    def write(self):
        """Write what is new; tell whether all of it is written. Otherwise the next write is one of everything."""
        try:
            descriptor = self._file.descriptor()
            for index in range(self._words[USED]):
                self._write_work(descriptor, index)
            for at, end in OWN_HEADER:
                self._write_header(descriptor, at, end)
            return True
        except OSError:
            let_through()  # full, gone, or closed by the job
            self._header.clear()
            self._works.clear()
            return False

    def _write_work(self, descriptor, index):
        """Write the steps of a work since the last time, then what they add up to, then how many they are."""
        words = self._words
        base = HEADER_WORDS + index * WORK_WORDS
        head = bytes(words[base : base + HEAD_WORDS])
        aggregate = base + AGGREGATES_AT + _word(head, SLOT) * AGGREGATE_WORDS
        folded = words[aggregate]
        before = self._works.get(index)
        if before == (head, folded):
            return
        # All that goes together is copied before anything is written: other threads go on meanwhile.
        if before is None:
            parts = self._steps(base, 0, _word(head, COUNT))
            parts.append((base + HEAD_WORDS, bytes(words[base + HEAD_WORDS : base + RING_AT])))
        else:
            parts = self._steps(base, _word(before[0], COUNT), _word(head, COUNT))
            if before[1] != folded:
                parts.append((aggregate, bytes(words[aggregate : aggregate + AGGREGATE_WORDS])))
        for at, data in parts:
            _write_at(descriptor, at, data)
        _write_at(descriptor, base, head)
        self._works[index] = head, folded

    def _steps(self, base, written, count):
        """Return the slots of the ring from the last step that was written, which may have got a flag since."""
        words = self._words
        first = max(written - 1, count - RING_STEPS, 0)
        parts = []
        while first < count:
            slot = first & RING_MASK
            steps = min(count - first, RING_STEPS - slot)
            at = base + RING_AT + 2 * slot
            parts.append((at, bytes(words[at : at + 2 * steps])))
            first += steps
        return parts

    def _write_header(self, descriptor, at, end):
        data = bytes(self._words[at:end])
        if self._header.get(at) != data:
            _write_at(descriptor, at, data)
            self._header[at] = data

    def _read_control(self):
        """Read the words that others write."""
        try:
            data = ORIGINAL.pread(self._file.descriptor(), 3 * WORD, REQUEST * WORD)
        except OSError:
            let_through()
            return  # closed by the job: nobody can ask it any more
        if len(data) == 3 * WORD:
            self._words[REQUEST : REQUEST + 3] = memoryview(data).cast("q")


def _word(data, index):
    return memoryview(data).cast("q")[index]


def _write_at(descriptor, at, data):
    """Write words at their place; raises OSError also where only some found room."""
    if ORIGINAL.pwrite(descriptor, data, at * WORD) != len(data):
        raise OSError(28, "some words found no room")
