"""Run one `py-spy record` on a process, and place its samples on the monotonic clock."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence

from tfprobe.attach.sampler.stack_file import Chunk, Read, StackTrace, ThreadReads, parse
from tfprobe.runs.proc import PROC

# If this process is killed, py-spy ends by itself.
_LONGEST_S = 300
_PR_SET_PDEATHSIG = 1
_COUNTS = re.compile(rb"Samples: (\d+) Errors: (\d+)")
_BEGUN = b"Sampling process"
# What py-spy prints right before it reads the end time of the trace.
_ENDING = b"Stopped sampling"
_LONGEST_PROBLEM = 300
_LIBC = ctypes.CDLL(None)


class PySpy:
    """A running py-spy. It never pauses the process it reads."""

    def __init__(self, program: str, pid: int, rate_per_s: int) -> None:
        """Start py-spy. Raises OSError."""
        self.rate_per_s = rate_per_s
        self._pid = pid
        self._said = b""
        self._output = os.memfd_create("stacks")
        self._began_ns = time.monotonic_ns()
        self._sampling_ns: int | None = None
        self._ending_ns: int | None = None
        self._threads_seen: dict[int, int] = {}
        self._usage_s = 0.0
        command = [program, "record", "--nonblocking", "--idle", "--threads", "--full-filenames"]
        command += ["--format", "chrometrace", "--duration", str(_LONGEST_S)]
        command += ["--rate", str(rate_per_s), "--pid", str(pid)]
        command += ["--output", f"/proc/self/fd/{self._output}"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(self._output,),
            preexec_fn=_end_with_parent,
        )
        assert self._process.stdout is not None
        self._messages = self._process.stdout.fileno()
        os.set_blocking(self._messages, False)

    @property
    def messages(self) -> int:
        """Return the descriptor to poll: it becomes readable when py-spy prints or ends."""
        return self._messages

    @property
    def sampling_ns(self) -> int | None:
        """Return since when py-spy has been reading stacks; None if it has not begun."""
        return self._sampling_ns

    def listen(self) -> bool:
        """Read py-spy's output; return False once it has ended and been waited for."""
        now_ns = time.monotonic_ns()
        try:
            news = os.read(self._messages, 65536)
        except BlockingIOError:
            return True
        self._said = (self._said + news)[-65536:]
        if self._sampling_ns is None and _BEGUN in self._said:
            self._sampling_ns = now_ns
        if self._ending_ns is None and _ENDING in self._said:
            self._ending_ns = now_ns
        if news:
            return True
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._usage_s = usage.ru_utime + usage.ru_stime
        return False

    def look_at_threads(self) -> None:
        """Record which threads exist: py-spy keeps reporting the last stack of an ended thread."""
        try:
            threads = os.listdir(PROC / str(self._pid) / "task")
        except OSError:
            return
        now_ns = time.monotonic_ns()
        self._threads_seen.update((int(thread), now_ns) for thread in threads)

    def stop(self) -> None:
        """Ask py-spy to write its samples and exit."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill py-spy; its samples are lost."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        self.close()

    def close(self) -> None:
        """Close py-spy's output."""
        assert self._process.stdout is not None
        self._process.stdout.close()
        os.close(self._output)

    def chunk(self) -> Chunk | str:
        """Return the samples, or why there are none. py-spy must have ended."""
        size = os.fstat(self._output).st_size
        if self._process.returncode or not size or self._sampling_ns is None:
            return self._problem()
        try:
            trace = parse(os.pread(self._output, size, 0))
        except ValueError:
            return "py-spy wrote a trace that cannot be read"
        zero_ns = self._zero_ns(trace)
        first_us = min(
            (thread.reads[0].at_us for thread in trace.threads if thread.reads), default=0
        )
        counts = _COUNTS.search(self._said)
        return Chunk(
            start_ns=zero_ns + first_us * 1000,
            end_ns=zero_ns + trace.end_us * 1000,
            rate_per_s=self.rate_per_s,
            samples=int(counts[1]) if counts else 0,
            errors=int(counts[2]) if counts else 0,
            cost_ns=int(self._usage_s * 1e9),
            threads=tuple(_from(self._without_ended(trace, zero_ns), first_us)),
        )

    def _zero_ns(self, trace: StackTrace) -> int:
        """Return when the trace's clock was 0: between py-spy's start and its first message."""
        assert self._sampling_ns is not None
        if self._ending_ns is None:
            return self._sampling_ns
        by_end_ns = self._ending_ns - trace.end_us * 1000
        return min(max(by_end_ns, self._began_ns), self._sampling_ns)

    def _without_ended(self, trace: StackTrace, zero_ns: int) -> list[ThreadReads]:
        """End the stacks of threads that are known to have ended."""
        last_ns = max(self._threads_seen.values(), default=0)
        for thread in trace.threads:
            seen_ns = self._threads_seen.get(thread.id, last_ns)
            gone_us = (seen_ns - zero_ns) // 1000
            if seen_ns < last_ns and thread.reads and gone_us > thread.reads[-1].at_us:
                thread.reads.append(Read(gone_us, None))
        return trace.threads

    def _problem(self) -> str:
        lines = self._said.decode("utf-8", "replace").splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]
        text = errors[0].removeprefix("Error: ") if errors else "it ended without a word"
        reasons = [line.strip() for line in lines if line.strip().startswith("Reason: ")]
        return f"py-spy: {'; '.join([text, *reasons])}"[:_LONGEST_PROBLEM]


def _from(threads: Sequence[ThreadReads], first_us: int) -> Iterator[ThreadReads]:
    """Shift the times of all reads so that they start at the first one."""
    for thread in threads:
        reads = [Read(read.at_us - first_us, read.stack) for read in thread.reads]
        yield ThreadReads(thread.id, thread.name, reads)


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
