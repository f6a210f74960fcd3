"""A worker with a parameter server beside it in one process trains a table of 4,000 bytes there.

Each step pulls the table once and pushes as much.
"""

import socket

import tensorflow as tf

STEPS = 20
SIZE = 1000


def main():
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    tasks = v1.train.ClusterSpec({"ps": [address()], "worker": [address()]})
    servers = [v1.train.Server(tasks, job_name=job, task_index=0) for job in ("ps", "worker")]
    with v1.device("/job:ps/task:0"):
        table = v1.get_variable("table", [SIZE], initializer=v1.zeros_initializer())
    with v1.device("/job:worker/task:0"):
        more = tf.sqrt(table + 1.0)
    train = v1.assign_add(table, more).op
    with v1.Session(servers[1].target) as session:
        session.run(v1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train)


def address():
    found = socket.socket()
    found.bind(("127.0.0.1", 0))
    port = found.getsockname()[1]
    found.close()
    return "127.0.0.1:%d" % port


if __name__ == "__main__":
    main()
