"""Use tfprobe's ProfileContext in every way; print what was traced, dumped and shown."""

import contextlib
import io
import json
import os
import sys
import threading

import tensorflow as tf
from tensorflow.python.client import session as session_module
from tfprobe import tfprof
from tfprobe.formats.profile_proto import graph_profile

tf1 = tf.compat.v1
TIMES = dict(tfprof.ProfileOptionBuilder.time_and_memory(), output="none")


def main(folder):
    found = {}
    for case in (
        explicit, sampled_of_much, sampled_of_little, next_steps, after_an_error, callers_own,
        nothing_runs, disabled, nested, two_threads, debugged, unwritable, another_graph,
        monitored, left_in_another_order, by_url, by_url_unwritable,
    ):  # fmt: skip
        place = os.path.join(folder, case.__name__)
        with tf.Graph().as_default() as graph:
            original = session_module.BaseSession.run
            found[case.__name__] = case(place, graph)
            assert session_module.BaseSession.run is original, case.__name__
    print(json.dumps(found))


def model(unused=0):
    """Return a sum that nothing can fold, beside ops that never run."""
    fed = tf1.placeholder(tf.float32, [3], name="fed")
    for at in range(unused):
        tf.identity(fed, name="unused_%d" % at)
    return fed, tf.reduce_sum(fed * 2.0, name="total")


def explicit(place, graph):
    fed, total = model()
    with tfprof.ProfileContext(place, trace_steps=range(10, 20), dump_steps=[20]) as context:
        context.add_auto_profiling("op", TIMES, [15, 18, 20])
        context.add_auto_profiling("scope", TIMES, {20})
        run(total, fed, 30)
        shown = {cmd: sorted(context.get_profiles(cmd)) for cmd in ("op", "scope")}
        micros = context.get_profiles("op")[15].total_exec_micros
        try:
            context.get_profiles("graph")
        except ValueError as error:
            never = str(error)
    return {"files": files(place), "shown": shown, "micros": micros > 0, "never": never}


def sampled_of_much(place, graph):
    fed, total = model(unused=50)
    with tfprof.ProfileContext(place) as context:
        run(total, fed, 120)
        return {"files": files(place), "traced": steps(context)}


def sampled_of_little(place, graph):
    fed, total = model()
    with tfprof.ProfileContext(place) as context:
        run(total, fed, 120)
        with tf1.Session() as session:
            session.run({"again": [total, total]}, {fed: [1, 2, 3]})
            session.run([total, total * 2.0], {fed: [1, 2, 3]})
        return {"files": files(place), "traced": steps(context)}


def next_steps(place, graph):
    fed, total = model()
    with tfprof.ProfileContext(place, trace_steps=[], dump_steps=[]) as context:
        run(total, fed, 3)
        context.trace_next_step()
        run(total, fed, 2)
        context.dump_next_step()
        run(total, fed, 2)
        return {"files": files(place), "traced": steps(context)}


def after_an_error(place, graph):
    """A step that fails is a step; the next is traced, and the caller's options are as before."""
    fed, total = model()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.NO_TRACE)
    with tfprof.ProfileContext(place, trace_steps=[1, 2], dump_steps=[]) as context:
        with tf1.Session() as session:
            session.run(total, {fed: [1, 2, 3]})
            try:
                session.run(total, options=options)
            except tf.errors.InvalidArgumentError:
                failed = True
            session.run(total, {fed: [1, 2, 3]}, options=options)
        levels = options.trace_level
        return {"failed": failed, "traced": steps(context), "level": levels}


def callers_own(place, graph):
    """Metadata of the caller is filled: whole where we trace, as asked where we do not."""
    fed, total = model()
    rows = []
    context = tfprof.ProfileContext(place, trace_steps=[1], dump_steps=[0, 1])
    with context, tf1.Session() as session:
        for level in (tf1.RunOptions.SOFTWARE_TRACE, tf1.RunOptions.NO_TRACE):
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(trace_level=level)
            session.run(total, {fed: [1, 2, 3]}, options=options, run_metadata=metadata)
            rows.append(len(metadata.step_stats.dev_stats) > 0)
    return rows


def nothing_runs(place, graph):
    """All that is fetched is fed: the metadata is empty, which ended the process in TensorFlow."""
    fed, _ = model()
    with tfprof.ProfileContext(place, trace_steps=[0], dump_steps=[]) as context:
        told = io.StringIO()
        with contextlib.redirect_stderr(told), tf1.Session() as session:
            value = session.run(fed, {fed: [1, 2, 3]}).tolist()
        return {"value": value, "told": told.getvalue(), "traced": steps(context)}


def disabled(place, graph):
    fed, total = model()
    with tfprof.ProfileContext("", enabled=False) as context:
        context.add_auto_profiling("op", TIMES, [1])
        context.trace_next_step()
        context.dump_next_step()
        run(total, fed, 3)
    return {"profiler": context.profiler, "files": files(place)}


def nested(place, graph):
    with tfprof.ProfileContext(place):
        try:
            with tfprof.ProfileContext(place):
                return "entered"
        except ValueError as error:
            return str(error)


def two_threads(place, graph):
    """Every run is counted, though only one at a time is looked at."""
    fed, total = model()
    with tfprof.ProfileContext(place, trace_steps=range(100), dump_steps=[]) as context:
        threads = [threading.Thread(target=run, args=(total, fed, 40, graph)) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        context.dump_next_step()
        run(total, fed, 1)
        return files(place)


def debugged(place, graph):
    fed, total = model()
    told = io.StringIO()
    context = tfprof.ProfileContext(place, trace_steps=[1], dump_steps=[], debug=True)
    with contextlib.redirect_stderr(told), context:
        run(total, fed, 2)
    return {"files": files(place), "told": told.getvalue()}


def unwritable(place, graph):
    """A full or missing disk must not end a training."""
    fed, total = model()
    with open(place, "w"):
        pass
    told = io.StringIO()
    context = tfprof.ProfileContext(place + "/below", trace_steps=[0], dump_steps=[0])
    with contextlib.redirect_stderr(told), context:
        run(total, fed, 2)
    return told.getvalue()


def another_graph(place, graph):
    """A session of another graph than the default one."""
    other = tf.Graph()
    with other.as_default():
        fed, total = model()
    context = tfprof.ProfileContext(place, trace_steps=[0], dump_steps=[0])
    with context, tf1.Session(graph=other) as session:
        session.run(total, {fed: [1, 2, 3]})
    return "total" in names(place, 0)


def monitored(place, graph):
    """A loop that hides its session, as those of estimators do."""
    counter = tf1.get_variable("counter", [], initializer=tf1.zeros_initializer())
    tf1.train.get_or_create_global_step()
    step = tf1.assign_add(counter, 1.0, name="count")
    with tfprof.ProfileContext(place, trace_steps=[5], dump_steps=[6]) as context:
        with tf1.train.MonitoredTrainingSession() as session:
            for _ in range(10):
                session.run(step)
        return {"files": files(place), "traced": steps(context)}


def left_in_another_order(place, graph):
    """Somebody else replaces run while we are open, and puts back what he found after we left."""
    fed, total = model()
    context = tfprof.ProfileContext(place, trace_steps=[], dump_steps=[])
    ours = context.__enter__()
    found = session_module.BaseSession.run
    session_module.BaseSession.run = lambda self, *args, **kwargs: found(self, *args, **kwargs)
    ours.__exit__(None, None, None)
    run(total, fed, 1)
    session_module.BaseSession.run = found
    run(total, fed, 1)
    session_module.BaseSession.run = found.__wrapped__
    return "ran"


def by_url(place, graph):
    """A directory that only TensorFlow can reach."""
    fed, total = model()
    with tfprof.ProfileContext("file://" + os.path.abspath(place), [0], [0]):
        run(total, fed, 1)
    return files(place)


def by_url_unwritable(place, graph):
    fed, total = model()
    told = io.StringIO()
    context = tfprof.ProfileContext("nowhere://bucket", [0], [0])
    with contextlib.redirect_stderr(told), context:
        run(total, fed, 1)
    return told.getvalue()


def run(fetched, fed, times, graph=None):
    with tf1.Session(graph=graph) as session:
        for _ in range(times):
            session.run(fetched, {fed: [1, 2, 3]})


def files(place):
    if not os.path.isdir(place):
        return {}
    found = {}
    for name in sorted(os.listdir(place)):
        with open(os.path.join(place, name), "rb") as file:
            content = file.read()
        is_profile = name.startswith("profile_")
        found[name] = list(graph_profile(content).steps) if is_profile else len(content) > 100
    return found


def names(place, step):
    with open(os.path.join(place, "profile_%d" % step), "rb") as file:
        found = graph_profile(file.read())
    return [node.name for node, records in zip(found.graph.nodes, found.records) if records]


def steps(context):
    return list(graph_profile(context.profiler.serialize_to_string()).steps)


if __name__ == "__main__":
    tf1.disable_eager_execution()
    main(sys.argv[1])
