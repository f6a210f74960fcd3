"""cells.jsonl: the numbers of a notebook's cells; and the time in which no cell runs, as an activity.

The cells are followed by the events that IPython offers to extensions: two callbacks a cell.
"""

from . import activities
from .config import notebook_path
from .core.guard import STATE, failed, never_raise_noting
from .core.recorder import CURRENT
from .notebooks import cell_numbers, notebook, shell
from .unpatched import UNPATCHED

FILE = "cells.jsonl"
# Kind of the activity between two cells, and its name.
BETWEEN_CELLS, NO_CELL_RUNS = "between_cells", "no cell runs"
# Of a kernel that has compiled more cells, no more are numbered.
MAX_CELLS = 10000


class _Kernel:
    """What is known of this process's IPython; created anew after a fork."""

    def __init__(self):
        self.shell = None
        self.noted = {}
        self.ended_ns = None


KERNEL = _Kernel()


def reset():
    """Forget the parent's cells, in a forked child, which runs none."""
    KERNEL.__init__()


@never_raise_noting
def follow():
    """Follow the cells of this process's IPython, if it has one."""
    found = shell()
    if found is None or KERNEL.shell is found:
        return
    KERNEL.shell = found
    found.events.register("pre_run_cell", _begins)
    found.events.register("post_run_cell", _ends)


def note_cells():
    """Write the number of each cell that was compiled or executed again since the last call."""
    recorder, noted = CURRENT.recorder, KERNEL.noted
    if KERNEL.shell is None or recorder is None or recorder.pid != UNPATCHED.getpid():
        return
    news = [(file, number) for file, number in cell_numbers().items() if noted.get(file) != number]
    news = [(file, number) for file, number in news if file in noted or len(noted) < MAX_CELLS]
    if news:
        noted.update(news)
        name = notebook(notebook_path())
        lines = [{"file": file, "cell": number, "notebook": name} for file, number in news]
        recorder.process_dir.append(FILE, *lines)


def _begins(*_):
    try:
        began_ns, ended_ns = UNPATCHED.monotonic_ns(), KERNEL.ended_ns
        if ended_ns is not None and STATE.noting and not STATE.disabled:
            activities.note(BETWEEN_CELLS, NO_CELL_RUNS, ended_ns, began_ns, place=("", 0))
    except Exception:
        failed("begin of a cell", noting_only=True)


def _ends(*_):
    try:
        if KERNEL.shell is not None and STATE.noting and not STATE.disabled:
            KERNEL.ended_ns = UNPATCHED.monotonic_ns()
            note_cells()
    except Exception:
        failed("end of a cell", noting_only=True)
