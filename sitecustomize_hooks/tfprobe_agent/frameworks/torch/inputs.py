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
        thread = batches = None
        began_ns = 0
        try:
            thread = torch_thread()
            profiler.end_window(thread)
            if not thread.taking:  # else a batch of one loader is made of those of another
                batches, began_ns = _timed(thread, vars(self))
        except Exception:
            failed("taking a batch")
        try:
            if batches is not None:
                thread.taking = True
            batch = original(self)
        except BaseException as error:
            leave_traceback(error)
            raise
        finally:
            if batches is not None:
                thread.taking = False
        try:
            if began_ns:
                batches.add(UNPATCHED.monotonic_ns() - began_ns)
        except Exception:
            failed("after a batch")
        return batch

    return take


def _timed(thread, iterator):
    """Return what is known of the batches of an iterator, and when this one begins; 0 if it is not to be timed."""
    batches = thread.batches_of(iterator.get("_index_sampler"))
    if batches is None:
        return None, 0
    if tracing.TRACING.window is not None:
        if thread.window is not None:
            thread.taken.append(batches)
        return batches, 0
    # The first one of a pass waits for workers to start, and the job's own profiler slows them down, too.
    is_usual = iterator.get("_num_yielded") and not profiler.SESSIONS.open
    return batches, UNPATCHED.monotonic_ns() if is_usual else 0
