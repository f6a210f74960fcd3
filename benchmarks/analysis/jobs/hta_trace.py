"""Read a trace by HolisticTraceAnalysis, and print the time of kernels: `hta_trace.py FILE`."""

import logging
import sys
import warnings

warnings.simplefilter("ignore")
logging.disable()

from hta.trace_analysis import TraceAnalysis  # noqa: E402

found = TraceAnalysis(trace_files={0: sys.argv[1]})
table = found.t.get_trace(0)
print(len(table), int(table.loc[table["stream"] >= 0, "dur"].sum()))
