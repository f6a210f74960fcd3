"""Add up what ops took in RunMetadata files, as without tfprobe: `by_hand.py loop|tfprof FILES`.

`loop` is a loop over TensorFlow's own messages; `tfprof GRAPH FILES` is TensorFlow's own engine,
which takes one step after the other. Prints how many seconds it took, after TensorFlow's import.
"""

import collections
import sys
import time

import tensorflow as tf


def main():
    how, files = sys.argv[1], sys.argv[2:]
    started = time.perf_counter()
    {"loop": in_a_loop, "tfprof": by_tfprof}[how](files)
    print("%.6f" % (time.perf_counter() - started))


def in_a_loop(files):
    total_us = collections.Counter()
    for path in files:
        for device in read(path).step_stats.dev_stats:
            for node in device.node_stats:
                label = node.timeline_label
                op = label.split(" = ")[1].split("(")[0] if " = " in label else node.node_name
                total_us[op] += node.op_end_rel_micros
    return total_us


def by_tfprof(files):
    v1 = tf.compat.v1
    definition = v1.GraphDef()
    with open(files[0], "rb") as file:
        definition.ParseFromString(file.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    profiler = v1.profiler.Profiler(graph)
    for step, path in enumerate(files[1:]):
        profiler.add_step(step, read(path))
    options = v1.profiler.ProfileOptionBuilder.time_and_memory()
    return profiler.profile_operations(dict(options, output="none"))


def read(path):
    metadata = tf.compat.v1.RunMetadata()
    with open(path, "rb") as file:
        metadata.ParseFromString(file.read())
    return metadata


if __name__ == "__main__":
    main()
