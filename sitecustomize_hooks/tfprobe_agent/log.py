"""The agent's own log: one file a process, never stdout, stderr or the logging module."""

import os
import sys
import traceback

from .config import debug_file
from .interruptions import let_through
from .originals import ORIGINAL, write_all


class Log:
    """Append lines to the files named so far: TFPROBE_DEBUG from the start, agent.log once there is a folder."""

    def __init__(self):
        debug = debug_file()
        self.paths = [debug] if debug else []

    def line(self, text):
        """Write one line; a log that cannot be written is not worth an error."""
        record = "%d %d %s\n" % (ORIGINAL.unix_ns(), ORIGINAL.getpid(), text)
        for path in self.paths:
            try:
                _append(path, record.encode("utf-8", "replace"))
            except OSError:
                let_through()  # disk full, directory gone: the job matters more than our log

    def error(self, where):
        """Write the exception being handled, with its traceback."""
        self.line("error in %s: %s" % (where, "".join(traceback.format_exception(*sys.exc_info())).rstrip()))


def _append(path, data):
    descriptor = ORIGINAL.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
    finally:
        ORIGINAL.close(descriptor)
