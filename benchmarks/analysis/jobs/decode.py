"""Time the decoding of captures: `decode.py session|function RUN ROUNDS`.

Prints for each round the CPU seconds that protobuf takes to parse all captures of the run and to be
asked for all that tables hold, those that loading the run takes, and how many rows it has.
"""

import json
import sys
import time
from pathlib import Path

from tfprobe.formats.schema import message_class
from tfprobe.profile.reader.run_reader import load
from tfprobe.runs.catalogue import find_run
from tfprobe.runs.liveness import this_machine


def main():
    kind, run, rounds = sys.argv[1:]
    walk = {"session": walk_session, "function": walk_function}[kind]
    contents = [path.read_bytes() for path in sorted(Path(run).glob("*/*/captures/*"))]
    folder = find_run(run, Path(run).parent)
    for _ in range(int(rounds)):
        by_protobuf_s, _ = timed(lambda: [walk(content) for content in contents])
        ours_s, profile = timed(lambda: load(folder, this_machine()))
        print(json.dumps([by_protobuf_s, ours_s, len(profile.executions)]))


def timed(work):
    """Return the CPU seconds that work takes, and what it returns."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def walk_session(content):
    """Ask every node for what a row and its allocations hold."""
    message = message_class("tfprobe.step_stats.RunMetadata")()
    message.ParseFromString(content)
    rows = []
    for device in message.step_stats.dev_stats:
        for node in device.node_stats:
            rows += [node.node_name, node.timeline_label, node.thread_id, node.all_start_micros]
            rows += [node.all_start_nanos, node.op_end_rel_nanos]
            for used in node.memory:
                rows += [used.allocator_name, used.total_bytes, used.peak_bytes, used.live_bytes]
                for record in used.allocation_records:
                    rows += [record.alloc_micros, record.alloc_bytes]
            for output in node.output:
                tensor = output.tensor_description
                memory = tensor.allocation_description
                rows += [tensor.dtype, *(each.size for each in tensor.shape.dim), memory.ptr]
                rows += [memory.requested_bytes, memory.allocated_bytes, memory.allocator_name]
    return rows


def walk_function(content):
    """Ask every event for its name and times, and for its facts."""
    message = message_class("tfprobe.xplane.XSpace")()
    message.ParseFromString(content)
    rows = []
    for plane in message.planes:
        rows += [each.name for each in plane.event_metadata.values()]
        for line in plane.lines:
            for event in line.events:
                rows += [event.metadata_id, event.offset_ps, event.duration_ps]
                for stat in event.stats:
                    rows += [
                        stat.metadata_id,
                        getattr(stat, stat.WhichOneof("value") or "int64_value"),
                    ]
    return rows


main()
