"""A job with one thing wrong with it: planted.py CAUSE [--fixed]. Prints what a step took."""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import tensorflow as tf

FIXED = "--fixed" in sys.argv
STEPS = 120
SLOW_S = 0.006
tf1 = tf.compat.v1


def input_slow_map():
    """Each element of a tf.data pipeline waits in its map function; fixed, nothing waits."""

    def parse(row):
        if not FIXED:
            time.sleep(SLOW_S)
        return row * np.float32(2)

    def slow_parse(row):
        parsed = tf1.py_func(parse, [row], tf.float32)
        parsed.set_shape([64])
        return parsed

    data = tf.data.Dataset.from_tensor_slices(np.ones((16, 64), np.float32)).repeat()
    _train_over(data.map(slow_parse).batch(2).prefetch(1))


def input_slow_generator():
    """Keras is fed by a generator that takes its time."""

    def batches():
        random = np.random.RandomState(1)
        while True:
            if not FIXED:
                time.sleep(2 * SLOW_S)
            yield random.rand(8, 64).astype("f"), random.rand(8, 1).astype("f")

    _fit(batches(), steps_per_epoch=STEPS)


def feed_large():
    """A Session is fed a large array of another type, converted at each step."""
    tf1.disable_eager_execution()
    rows = np.ones((128 if not FIXED else 1, 40000), np.float64 if not FIXED else np.float32)
    fed = tf1.placeholder(tf.float32, [None, 40000])
    total = tf.reduce_sum(fed[:1, :100])
    with tf1.Session() as session:
        _timed(lambda _: session.run(total, {fed: rows}))


def retrace():
    """A function is called with another Python number each time."""

    @tf.function
    def train_step(number):
        value = weights
        for _ in range(10):
            value = tf.tanh(value + number)
        return tf.reduce_sum(value)

    weights = tf.Variable(tf.ones([100, 100]))
    _timed(lambda step: train_step(tf.constant(float(step)) if FIXED else float(step)))


def numpy_each_step():
    """The loss is read at each step."""
    train_step, batch = _function_step()
    losses = []

    def step(_):
        loss = train_step(batch)
        if not FIXED:
            losses.append(loss.numpy())

    _timed(step)


def tiny_ops():
    """A step of a thousand ops that do next to nothing."""
    weights = tf.Variable(tf.ones([4]))

    @tf.function
    def train_step():
        value = weights
        for _ in range(4 if FIXED else 1000):
            # Not sin(sin(...)): TensorFlow makes one op of such a chain.
            value = tf.sin(tf.cumsum(value))
        weights.assign(value)
        return value

    _timed(lambda _: train_step())


def sleeping_callback():
    """A callback of Keras sleeps behind each batch."""

    class Sleeper(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if not FIXED:
                time.sleep(2 * SLOW_S)

    _fit(_arrays(), callbacks=[Sleeper()])


def leaking_list():
    """What each step returns is kept for ever."""
    train_step = tf.function(lambda x: x + 1.0)
    kept = []

    def step(_):
        result = train_step(batch)
        if not FIXED:
            kept.append(result)
        time.sleep(0.05)

    batch = tf.ones([512, 512])
    _timed(step, steps=3 * STEPS)


def slow_worker():
    """Two workers train one model; the second takes long to make its batches."""
    if "TF_CONFIG" not in os.environ:
        sys.exit(_start_workers())
    index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    with strategy.scope():
        weights = tf.Variable(tf.ones([64, 1]))

    def replica_step(batch):
        context = tf.distribute.get_replica_context()
        loss = tf.reduce_mean(tf.matmul(batch, weights))
        return context.all_reduce(tf.distribute.ReduceOp.SUM, loss)

    @tf.function
    def train_step(batch):
        return strategy.run(replica_step, args=(batch,))

    def next_batch():
        if index == 1 and not FIXED:
            time.sleep(3 * SLOW_S)
        return np.ones((8, 64), "f")

    for _ in range(STEPS):
        train_step(tf.constant(next_batch()))


def too_many_threads():
    """Many more threads than processors."""
    threads = 0 if FIXED else 64
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    train_step, batch = _function_step(width=512)
    _timed(lambda _: train_step(batch))


def checkpoint_each_step():
    """A checkpoint is written behind each step."""
    train_step, batch = _function_step(width=512)
    folder = tempfile.mkdtemp()
    checkpoint = tf.train.Checkpoint(weights=train_step.weights)

    def step(_):
        train_step(batch)
        if not FIXED:
            checkpoint.write(os.path.join(folder, "latest"))

    _timed(step)


def well_tuned():
    """Nothing is wrong: large products, a pipeline that keeps up, no reading in between."""
    side = 1024
    weights = tf.Variable(tf.random.normal([side, side], stddev=0.01))
    data = tf.data.Dataset.from_tensors(np.ones((256, side), np.float32)).cache().repeat()

    @tf.function
    def train_step(batch):
        with tf.GradientTape() as tape:
            hidden = batch
            for _ in range(6):
                hidden = tf.tanh(tf.matmul(hidden, weights))
            loss = tf.reduce_mean(hidden)
        weights.assign_sub(0.01 * tape.gradient(loss, weights))
        return loss

    for batch in data.prefetch(2).take(60):
        train_step(batch)


def _train_over(data):
    weights = tf.Variable(tf.ones([64, 1]))

    @tf.function
    def train_step(batch):
        return tf.reduce_sum(tf.matmul(batch, weights))

    batches = iter(data)
    _timed(lambda _: train_step(next(batches)))


def _function_step(width=64):
    weights = tf.Variable(tf.ones([width, width]))

    @tf.function
    def step(batch):
        return tf.reduce_sum(tf.matmul(batch, weights))

    def train_step(batch):
        return step(batch)

    train_step.weights = weights
    return train_step, tf.ones([256, width])


def _model():
    model = tf.keras.Sequential([tf.keras.layers.Dense(64), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def _arrays():
    data = tf.data.Dataset.from_tensors((np.ones((8, 64), "f"), np.ones((8, 1), "f")))
    return data.repeat().prefetch(2)


def _fit(data, **settings):
    model = _model()
    settings.setdefault("steps_per_epoch", STEPS)
    model.fit(data, epochs=1, verbose=0, **settings)  # traced and warm
    began = time.perf_counter()
    model.fit(data, epochs=1, verbose=0, **settings)
    _tell(time.perf_counter() - began, STEPS)


def _timed(step, steps=STEPS):
    """Take the steps; tell the mean of those after the first ten, without the slowest tenth."""
    took = []
    for number in range(steps):
        began = time.perf_counter()
        step(number)
        took.append(time.perf_counter() - began)
    usual = sorted(took[10:])[: -(steps // 10)]
    _tell(sum(usual), len(usual))


def _tell(seconds, steps):
    print("STEP_US %.1f" % (1e6 * seconds / steps))


def _start_workers():
    import socket

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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
