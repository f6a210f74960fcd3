"""Where a program takes a batch from a DataLoader.

How long that takes is noted while nothing is traced: a trace makes Python that makes batches several times as slow. A
window that no mark has ended in time is given up there.
"""

import sys

from tfprobe_agent import patching
from tfprobe_agent.core import tracing
from tfprobe_agent.core.guard import failed
from tfprobe_agent.interruptions import leave_traceback
from tfprobe_agent.unpatched import UNPATCHED

from . import profiler
from .thread_state import torch_thread

_LOADERS = "torch.utils.data.dataloader"


def patch():
    """Patch the iterators of DataLoader, in the process that trains."""
    iterator = getattr(sys.modules.get(_LOADERS), "_BaseDataLoaderIter", None)
    if iterator is not None:
        patching.patch_call(iterator, "__next__", _around_next)


def _around_next(original):
    def take(self):
        thread, data, began_ns = None, 0, 0
        try:
            thread = torch_thread()
            profiler.end_window(thread)
            facts = vars(self)
            data = id(facts.get("_dataset"))
            if tracing.TRACING.window is not None:
                if thread.window is not None:
                    thread.traced_data = data if thread.traced_data in (None, data) else 0
            elif facts.get("_num_yielded") and not profiler.SESSIONS.open:  # the first one waits for workers to start
                began_ns = UNPATCHED.monotonic_ns()
        except Exception:
            failed("taking a batch")
        try:
            batch = original(self)
        except BaseException as error:
            leave_traceback(error)
            raise
        try:
            if began_ns:
                thread.took_batch(data, UNPATCHED.monotonic_ns() - began_ns)
        except Exception:
            failed("after a batch")
        return batch

    return take
