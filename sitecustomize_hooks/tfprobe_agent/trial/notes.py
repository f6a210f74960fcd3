"""What became of each fix: how often it was applied, where first, and why it was not elsewhere."""

import sys

from tfprobe_agent.core.recorder import CURRENT, current_recorder
from tfprobe_agent.imports import place_of

# Reasons that are counted, and characters of each.
MAX_REASONS = 16
REASON_LENGTH = 200
# Those of this process.
NOTES = []


class Note:
    """One fix in this process."""

    def __init__(self, fix):
        self.fix = fix
        self.times = 0
        self.reasons = {}
        self.error = None
        self.place = None, None
        self.state = None  # what the modules of a fix share

    def applied(self, times=1):
        """Count an application; the first one is written at once if it can be, with its place in the job's code."""
        self.times += times
        if self.times == times:
            file, line = place_of(sys._getframe(1))
            self.place = (file, line) if file else (None, None)
            self.write()

    def skipped(self, why):
        """Count a place where the fix does not apply."""
        why = why[:REASON_LENGTH]
        if why in self.reasons or len(self.reasons) < MAX_REASONS:
            self.reasons[why] = self.reasons.get(why, 0) + 1

    def failed(self, error):
        """Keep what made the fix fail."""
        self.error = self.error or error[:REASON_LENGTH]

    def write(self):
        """Write the event, in a process that is recorded; the last one of a fix counts.

        A process that only starts others, or compiles for them, imports what is patched and is none.
        """
        if CURRENT.recorder is not None:
            current_recorder().process_dir.event(
                "fix", fix=self.fix, applied=self.times, skipped=self.reasons, error=self.error, file=self.place[0],
                line=self.place[1],
            )  # fmt: skip


def write_all():
    """Write what became of all fixes."""
    for note in NOTES:
        note.write()
