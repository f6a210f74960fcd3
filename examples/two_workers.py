"""One model trained by two processes on this machine (MultiWorkerMirroredStrategy over loopback).

Without TF_CONFIG it starts both workers and waits for them. A worker reads its index from
TF_CONFIG, as on a cluster. Runs on TensorFlow 2.4 and newer; an older one prints a message and
exits with status 0.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

WORKERS = 2


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=100, help="training steps (default: 100)")
    arguments.add_argument(
        "--batch", type=int, default=32, help="images in a batch of one worker (default: 32)"
    )
    options = arguments.parse_args()
    if "TF_CONFIG" in os.environ:
        work(options)
    else:
        sys.exit(start_workers())


def start_workers():
    """Start this script once per worker; return the worst exit status."""
    sockets = [socket.socket() for _ in range(WORKERS)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    addresses = ["127.0.0.1:%d" % listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    workers = []
    for index in range(WORKERS):
        cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = dict(os.environ, TF_CONFIG=json.dumps(cluster))
        workers.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    return max(abs(worker.wait()) for worker in workers)


def work(options):
    """Train as the worker that TF_CONFIG names; the first one prints the result."""
    import tensorflow as tf

    import digits

    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategies = getattr(tf.distribute, "MultiWorkerMirroredStrategy", None)
    if strategies is None:
        print(
            "worker %d: TensorFlow %s has no MultiWorkerMirroredStrategy" % (index, tf.__version__)
        )
        return
    strategy = strategies()
    tf.random.set_seed(1)
    images, labels = digits.load()
    images = images.reshape(len(images), 784)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([784, 10]))
        bias = tf.Variable(tf.zeros([10]))

    def replica_step(batch_images, batch_labels):
        with tf.GradientTape() as tape:
            logits = batch_images @ weights + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=batch_labels, logits=logits
            )
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, (weights, bias))
        replicas = tf.distribute.get_replica_context()
        gradients = replicas.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        weights.assign_sub(0.1 * gradients[0])
        bias.assign_sub(0.1 * gradients[1])
        return loss

    @tf.function
    def train_step(batch_images, batch_labels):
        losses = strategy.run(replica_step, args=(batch_images, batch_labels))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    loss = None
    batches = digits.batches(images, labels, options.batch, seed=index)
    for _ in range(options.steps):
        loss = train_step(*map(tf.constant, next(batches)))
    if index == 0:
        print("workers %d" % strategy.num_replicas_in_sync)
        print("steps %d" % options.steps)
        print("loss %r" % float(loss))


if __name__ == "__main__":
    main()
