"""A parameter server and two workers of TensorFlow 1, forked by a script that knows each place."""

import multiprocessing
import socket
import time

import tensorflow as tf

STEPS = 20


def main():
    tasks = {"ps": [address()], "worker": [address(), address()]}
    places = [("ps", 0), ("worker", 0), ("worker", 1)]
    server, *workers = [
        multiprocessing.Process(target=serve, args=(tasks, *place)) for place in places
    ]
    for each in (server, *workers):
        each.start()
    for each in workers:
        each.join()
    server.terminate()
    server.join()
    assert [each.exitcode for each in workers] == [0, 0]


def serve(tasks, role, index):
    v1 = tf.compat.v1
    server = v1.train.Server(v1.train.ClusterSpec(tasks), job_name=role, task_index=index)
    if role == "ps":
        server.join()
    mine = "/job:worker/task:%d" % index
    with tf.Graph().as_default():
        with v1.device("/job:ps/task:0"):
            total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
        with v1.device(mine):
            more = tf.constant(1.0) + 0.0
        train = v1.assign_add(total, more).op
        missing, first = v1.report_uninitialized_variables(), v1.global_variables_initializer()
        # Without filters each worker waits for the other one's server, which may have ended.
        settings = v1.ConfigProto(device_filters=["/job:ps", mine])
        with v1.Session(server.target, config=settings) as session:
            if index == 0:
                session.run(first)
            while len(session.run(missing)):
                time.sleep(0.1)
            for _ in range(STEPS):
                session.run(train)


def address():
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    port = found.getsockname()[1]
    found.close()
    return "127.0.0.1:%d" % port


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
