"""Allow the sampler beside the job to read this process, where the kernel asks for that (Yama, ptrace_scope 1).

`tfprobe run --stacks` allows it for the first process of the job, before it becomes the job. A child has not inherited
that. Nothing is done here unless the launcher says that it has to be.
"""

import sys

from . import config
from .interruptions import let_through

_PR_SET_PTRACER = 0x59616D61


def allow():
    """Allow it. With the job's own ctypes, which NumPy imports; without it this process is not sampled."""
    pid = config.ptracer()
    ctypes = sys.modules.get("ctypes")
    if pid is None or ctypes is None:
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
    except (OSError, AttributeError):
        let_through()
