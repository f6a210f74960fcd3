"""steps.bin: exact counts and times of all steps, in a file that survives any death of the process.

A step costs three stores into mapped memory; aggregates are folded from the ring every FOLD steps into the inactive
slot, which then becomes active.

Where a page fault in a mapping could end or stop the job, the words are in memory and the file is kept up to date by
plain writes. A page of a mapped file may be read and written back at any store into it. If a server does that and
fails, the kernel ends the process by SIGBUS, whereas an error of a write can be handled. A step that looks at the
control words writes what is new.
"""

import array
import mmap
import os

from tfprobe_agent.interruptions import let_through
from tfprobe_agent.unpatched import UNPATCHED, OpenFile, read_file

from .loop import Loop
from .steps_layout import (
    ACTIVE_WORD,
    AGGREGATE_WORDS,
    AGGREGATES_AT,
    BUCKETS,
    COUNT,
    EXIT_MONO_WORD,
    EXIT_WORD,
    FILE_WORDS,
    FIRST_SEEN,
    HEAD_WORDS,
    HEADER_WORDS,
    KIND,
    KINDS,
    LAYOUT_VERSION,
    LOOP_CAPACITY,
    LOOP_WORDS,
    MAGIC,
    NAME_AT,
    NAME_WORDS,
    ONCE_NS,
    OPTIMIZER_STEPS,
    OWN_HEADER,
    PER_EXECUTION,
    POLL_NS,
    REFUSED_NS,
    REQUEST,
    REQUEST_LOOP,
    RING_AT,
    RING_MASK,
    RING_STEPS,
    RUNNING,
    SLOT,
    STARTED_WORD,
    STATE_WORD,
    THREAD_ID,
    THREAD_NAME_AT,
    THREAD_NAME_WORDS,
    THREADS,
    USED,
    WORD,
)


class StepsFile:
    """The file, mapped or not; `words` is a memoryview of signed 64-bit words."""

    def __init__(self, path, started_ns):
        self._file = OpenFile(path, os.O_RDWR | os.O_EXCL)
        self.capacity = LOOP_CAPACITY
        self.mapping = self._exchange = None
        try:
            self.words = self._mapped()
        except (OSError, ValueError, TypeError):
            # On another machine, or a file system without shared mmap or allocation (some FUSE, 9p).
            let_through()
            memory = mmap.mmap(-1, FILE_WORDS * WORD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.words = memoryview(memory).cast("q")
            self._exchange = Exchange(self._file, self.words)
        self.used = 0
        self._refused_until_ns = 0
        self._write_header(started_ns)

    def _mapped(self):
        size = FILE_WORDS * WORD
        descriptor = self._file.descriptor()
        if is_remote(descriptor):
            raise OSError(95, "its pages may be lost")
        UNPATCHED.ftruncate(descriptor, size)
        # Allocated blocks cannot raise SIGBUS on a full disk; a sparse page can.
        UNPATCHED.fallocate(descriptor, 0, HEADER_WORDS * WORD)
        self.mapping = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        return memoryview(self.mapping).cast("q")

    def _write_header(self, started_ns):
        words = self.words
        words[1] = LAYOUT_VERSION
        words[2] = HEADER_WORDS
        words[3] = self.capacity
        words[4] = LOOP_WORDS
        words[5] = RING_STEPS
        words[6] = BUCKETS
        words[7] = UNPATCHED.getpid()
        words[8] = UNPATCHED.unix_ns()
        words[9] = UNPATCHED.monotonic_ns()
        words[STATE_WORD] = RUNNING
        words[STARTED_WORD] = started_ns
        words[ACTIVE_WORD] = words[9]
        words[REQUEST_LOOP] = -1
        words[0] = MAGIC
        self.write()

    def note_exit(self):
        """Note this moment as the end of the process, on both clocks: the wall clock may be set."""
        self.put(EXIT_MONO_WORD, UNPATCHED.monotonic_ns())
        self.put(EXIT_WORD, UNPATCHED.unix_ns())

    def add_loop(self, kind, name, thread_name, thread_id, now_ns, make=Loop):
        """Allocate the next loop block and return its Loop, created by `make`; None if the file or the disk is full."""
        if self.used >= self.capacity or now_ns < self._refused_until_ns:
            return None
        base = HEADER_WORDS + self.used * LOOP_WORDS
        if self.mapping is not None:
            try:
                UNPATCHED.fallocate(self._file.descriptor(), base * WORD, LOOP_WORDS * WORD)
            except OSError:
                let_through()
                self._refused_until_ns = now_ns + REFUSED_NS
                return None  # disk full, or closed by the job: the existing loops go on
        words = self.words
        words[base + KIND] = KINDS.index(kind)
        words[base + THREAD_ID] = thread_id
        words[base + FIRST_SEEN] = now_ns
        words[base + PER_EXECUTION] = 1
        words[base + OPTIMIZER_STEPS] = -1
        _put_text(words, base + NAME_AT, NAME_WORDS, name)
        _put_text(words, base + THREAD_NAME_AT, THREAD_NAME_WORDS, thread_name)
        words[base + THREADS] = 1
        loop = make(self, self.used, kind, name, base)
        self.used += 1
        words[USED] = self.used
        return loop

    def look(self, now_ns):
        """If the file is not mapped, write what is new and read the control words, when that is due."""
        if self._exchange is not None:
            self._exchange.look(now_ns)

    def write(self):
        """If the file is not mapped, write what is new; return whether everything is in the file."""
        return self._exchange is None or self._exchange.write()

    def status_page(self):
        """Return a mapping of the first page, where the C library stores after Python has ended; None without one."""
        if self.mapping is not None:
            return self.mapping
        try:
            # Just written, so the page is here: this close to the end it is not read from its server again.
            return mmap.mmap(self._file.descriptor(), HEADER_WORDS * WORD) if self.write() else None
        except (OSError, ValueError):
            let_through()
            return None

    def leave(self, loops):
        """Keep out of the file what a step stores that began before the fork, in the forked child."""
        self.words = self.scratch().words
        self._exchange = None
        for loop in loops:
            loop.place(self.words, HEADER_WORDS)

    def scratch(self):
        """Return a file in memory only, with room for one loop: to measure the agent itself."""
        return _Scratch()

    def add(self, word, amount):
        """Add to a counter of the header."""
        self.words[word] += amount

    def put(self, word, value):
        """Set a word of the header."""
        self.words[word] = value


class _Scratch:
    """Words in memory only, with the layout of a StepsFile."""

    def __init__(self):
        self.words = memoryview(bytearray((HEADER_WORDS + LOOP_WORDS) * WORD)).cast("q")


def _put_text(words, offset, count, text):
    """Store text as UTF-8 in `count` words, cut to whole characters and NUL padded."""
    data = text.encode("utf-8", "replace")[: count * WORD - 1].decode("utf-8", "ignore").encode("utf-8")
    words[offset : offset + count] = memoryview(array.array("q", data.ljust(count * WORD, b"\0")))


# File systems whose pages come from a server, another machine or another process. Also all of type "fuse.x".
REMOTE = frozenset(
    (
        "9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "fuseblk", "gfs2", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
        "wekafs",
    )
)  # fmt: skip
# Writing may take this part of the time: a slow disk is written less often.
WRITE_SHARE = 100
# While one thread writes, no other does; for this long, in case an exception of the job ends the writing unnoticed.
CLAIM_NS = 600 * 1000 * 1000 * 1000
MOUNTS_BYTES = 16 << 20


def is_remote(descriptor):
    """Return whether an open file is on a file system whose page faults may fail or block; False if unknown."""
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
    """Which words are in the file already, and when the next write is due."""

    def __init__(self, file, words):
        self._file = file
        self._words = words
        self._due_ns = 0
        self._header = {}  # parts of the header as written, by their first word
        self._loops = {}  # of each loop as written: its first words, and the number of steps in its aggregate

    def look(self, now_ns):
        """Write what is new and read the control words, unless that was done a moment ago."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + CLAIM_NS
        pause_ns = REFUSED_NS
        try:
            if self.write():
                self._read_control()
                cost_ns = UNPATCHED.monotonic_ns() - now_ns
                self._words[ONCE_NS] += cost_ns
                pause_ns = max(POLL_NS, WRITE_SHARE * cost_ns)
        finally:
            self._due_ns = UNPATCHED.monotonic_ns() + pause_ns

    def write(self):
        """Write what is new; return whether all of it was written. If not, the next call writes everything."""
        try:
            descriptor = self._file.descriptor()
            for index in range(self._words[USED]):
                self._write_loop(descriptor, index)
            for offset, end in OWN_HEADER:
                self._write_header(descriptor, offset, end)
            return True
        except OSError:
            let_through()  # full, gone, or closed by the job
            self._header.clear()
            self._loops.clear()
            return False

    def _write_loop(self, descriptor, index):
        """Write the steps of a loop since the last time, then their aggregate, then their number."""
        words = self._words
        base = HEADER_WORDS + index * LOOP_WORDS
        head = bytes(words[base : base + HEAD_WORDS])
        aggregate = base + AGGREGATES_AT + _word(head, SLOT) * AGGREGATE_WORDS
        folded = words[aggregate]
        before = self._loops.get(index)
        if before == (head, folded):
            return
        # Everything that belongs together is copied before anything is written: other threads go on meanwhile.
        if before is None:
            parts = self._steps(base, 0, _word(head, COUNT))
            parts.append((base + HEAD_WORDS, bytes(words[base + HEAD_WORDS : base + RING_AT])))
        else:
            parts = self._steps(base, _word(before[0], COUNT), _word(head, COUNT))
            if before[1] != folded:
                parts.append((aggregate, bytes(words[aggregate : aggregate + AGGREGATE_WORDS])))
        for offset, data in parts:
            _write_words(descriptor, offset, data)
        _write_words(descriptor, base, head)
        self._loops[index] = head, folded

    def _steps(self, base, written, count):
        """Return the slots of the ring from the last written step on, which may have got a flag since."""
        words = self._words
        first = max(written - 1, count - RING_STEPS, 0)
        parts = []
        while first < count:
            slot = first & RING_MASK
            steps = min(count - first, RING_STEPS - slot)
            offset = base + RING_AT + 2 * slot
            parts.append((offset, bytes(words[offset : offset + 2 * steps])))
            first += steps
        return parts

    def _write_header(self, descriptor, offset, end):
        data = bytes(self._words[offset:end])
        if self._header.get(offset) != data:
            _write_words(descriptor, offset, data)
            self._header[offset] = data

    def _read_control(self):
        """Read the words that others write."""
        try:
            data = UNPATCHED.pread(self._file.descriptor(), 3 * WORD, REQUEST * WORD)
        except OSError:
            let_through()
            return  # closed by the job: requests no longer reach it
        if len(data) == 3 * WORD:
            self._words[REQUEST : REQUEST + 3] = memoryview(data).cast("q")


def _word(data, index):
    return memoryview(data).cast("q")[index]


def _write_words(descriptor, offset, data):
    """Write words at their offset; raise OSError if not all of them found room."""
    if UNPATCHED.pwrite(descriptor, data, offset * WORD) != len(data):
        raise OSError(28, "not all words were written")
