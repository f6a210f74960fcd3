"""A Session loop without end that is slower than it could be in several ways."""

import numpy as np
import tensorflow as tf

tf = getattr(tf.compat, "v1", tf)
tf.disable_eager_execution() if hasattr(tf, "disable_eager_execution") else None


def read(index):
    """What the pipeline computes in Python."""
    return np.full(16, index % 7, "float32")


def load(index):
    row = tf.py_func(read, [index], tf.float32)
    row.set_shape([16])
    return row, tf.reshape(tf.cast(index % 7, tf.float32), [1])


data = tf.data.Dataset.range(64).shuffle(64).map(load).repeat().batch(8)
rows, targets = tf.data.make_one_shot_iterator(data).get_next()
matrix = tf.get_variable("matrix", [16, 32])
vector = tf.get_variable("vector", [32, 1], use_resource=True)
hidden = tf.nn.dropout(tf.nn.relu(tf.matmul(rows, matrix)), rate=0.2)
loss = tf.reduce_mean(tf.square(tf.matmul(hidden, vector) - targets))
train = tf.train.AdamOptimizer(0.01).minimize(loss)
tf.summary.histogram("matrix", matrix)
summaries = tf.summary.merge_all()
saver = tf.train.Saver()
settings = tf.ConfigProto(intra_op_parallelism_threads=64)
with tf.Session(config=settings) as session, tf.summary.FileWriter("logs") as writer:
    session.run(tf.global_variables_initializer())
    for step in range(1000000):
        value = session.run([train, summaries])[1]
        writer.add_summary(value, step)
        saver.save(session, "./model")
