"""Where a program takes a batch from a DataLoader: a window that no mark has ended in time is given up there."""

import sys

from tfprobe_agent import patching
from tfprobe_agent.core.guard import failed
from tfprobe_agent.interruptions import leave_traceback

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
        try:
            profiler.end_window(torch_thread())
        except Exception:
            failed("taking a batch")
        try:
            return original(self)
        except BaseException as error:
            leave_traceback(error)
            raise

    return take
