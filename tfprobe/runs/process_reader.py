"""Read one process folder again and again: what it says of itself, its steps, its state."""

from __future__ import annotations

from tfprobe.errors import Missing, UnreadableInput
from tfprobe.runs.catalogue import ProcessEntry, ended_process
from tfprobe.runs.layout import ProcessFolder
from tfprobe.runs.liveness import LIVE, Machine, may_say_more
from tfprobe.runs.manifests import read_process
from tfprobe.runs.rereading import Reread
from tfprobe.runs.steps import StepsFile, StepsReader
from tfprobe.runs.steps_layout import RING_STEPS, Header


class ProcessReader:
    """One process folder. Of its files only what is new is read."""

    def __init__(
        self, folder: ProcessFolder, here: Machine, *, keep_steps: int = RING_STEPS
    ) -> None:
        """Begin with nothing read; of each work the latest `keep_steps` are remembered."""
        self.folder = folder
        self._here = here
        self._manifest = Reread(folder.manifest, read_process)
        self._steps = StepsReader(folder.steps, keep_steps=keep_steps)

    def read(self) -> tuple[ProcessEntry, StepsFile | Missing]:
        """Return the process at a glance, and its steps."""
        manifest, steps = self._manifest.value(), self._read_steps()
        known = None if isinstance(manifest, Missing) else manifest
        state = ended_process(self.folder, _header(steps), known, self._here)
        if state not in LIVE and may_say_more(_header(steps)):
            # It may have made some more between its steps and its state.
            steps = self._read_steps()
            state = ended_process(self.folder, _header(steps), known, self._here)
        if isinstance(steps, Missing):
            service = None if known is None else known.service
            count = 0 if service is None else service.steps
            return ProcessEntry(self.folder, manifest, steps, count, state), steps
        count = sum(work.count for work in steps.works)
        return ProcessEntry(self.folder, manifest, steps.header, count, state), steps

    def _read_steps(self) -> StepsFile | Missing:
        try:
            return self._steps.read()
        except UnreadableInput as exc:
            return Missing(str(exc))


def _header(steps: StepsFile | Missing) -> Header | None:
    return None if isinstance(steps, Missing) else steps.header
