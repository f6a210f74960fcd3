"""The graphs that really run: what placement and grappler make of tf.functions, which the captures name.

TensorFlow hands them out only while it prepares a function, which is at its first call; so the first step of a work is
run with graph collection on. No step is changed by that; a job that collects graphs itself is left alone.
"""

import sys
import threading

from .guard import STATE, failed
from .journal import tensorflow_version
from .originals import ORIGINAL
from .recorder import current

_CONTEXT = "tensorflow.python.eager.context"
_SUMMARY = "tensorflow.python.ops.summary_ops_v2"


def collect_first_step(work):
    """Collect the graphs of the first step of this work, which is about to run."""
    if work.n or work.after_first is not None or current().config.trace_level == "off" or not STATE.sampling:
        return
    if (tensorflow_version() or "1.").startswith("1.") or threading.active_count() > 1:
        return  # TensorFlow 1.14 crashes when collection is switched while another thread runs a function
    if getattr(sys.modules.get(_SUMMARY), "_current_trace_context", None) is not None:
        return  # tf.summary.trace_on: the graphs are the job's
    context = sys.modules[_CONTEXT]._context
    if context is None or not getattr(context, "_context_handle", None):
        return  # nothing has run yet; asking would create the devices before the job does
    began_ns = ORIGINAL.monotonic_ns()
    context.enable_run_metadata()
    work.after_first = _write
    work.next_fold = 1
    current().spent_once(ORIGINAL.monotonic_ns() - began_ns)


def _write(work):
    """Store the graphs collected and stop collecting."""
    began_ns = ORIGINAL.monotonic_ns()
    context = sys.modules[_CONTEXT]._context
    try:
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
    try:
        size = 0
        if metadata is not None and len(metadata.function_graphs):
            name = "work-%d.optimized.pb" % work.index
            size = current().journal.write_file(metadata.SerializeToString(), "graphs", name)
        cost_ns = ORIGINAL.monotonic_ns() - began_ns
        current().spent_once(cost_ns)
        current().journal.event("optimized", work=work.index, bytes=size, cost_ns=cost_ns)
    except Exception:
        failed("writing optimized graphs", sampling_only=True)
