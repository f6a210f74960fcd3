"""Two workers all-reduce in each step; worker 1 sleeps before it does, as a straggler would.

Started without TF_CONFIG it starts both and waits for them.
"""

import json
import os
import socket
import subprocess
import sys
import time

# A third is sampled, and on a busy machine a sample of one worker may have no partner: five must.
STEPS = 45
# Longer than a worker waits for a core on a busy machine.
LATE_S = 0.2


def main():
    if "TF_CONFIG" in os.environ:
        work()
    else:
        sys.exit(start_workers())


def start_workers():
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = ["127.0.0.1:%d" % each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    workers = []
    for index in range(2):
        cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = dict(os.environ, TF_CONFIG=json.dumps(cluster))
        workers.append(subprocess.Popen([sys.executable] + sys.argv, env=environment))
    return max(abs(worker.wait()) for worker in workers)


def work():
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    is_late = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1

    def sleep(value):
        if is_late:
            time.sleep(LATE_S)
        return value

    def replica_step(value):
        late = tf.numpy_function(sleep, [value], tf.float32)
        late.set_shape(value.shape)
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, late)

    @tf.function
    def train_step(value):
        return strategy.run(replica_step, args=(value,))

    for _ in range(STEPS):
        train_step(tf.ones([1000]))


if __name__ == "__main__":
    main()
