"""A tf.data pipeline that decodes the same few PNG images in every epoch."""

import numpy as np
import tensorflow as tf

from data import Network
from stopwatch import Stopwatch, arguments, now

options = arguments(__doc__)
watch = Stopwatch(options.seconds)
random = np.random.RandomState(1)
images = [
    tf.io.encode_png(random.randint(0, 255, (192, 192, 3), "uint8")).numpy() for _ in range(128)
]
network = Network(32 * 32 * 3, 512)
train_step = tf.function(network.train)


def decode(image):
    pixels = tf.image.resize(tf.io.decode_png(image, channels=3), [32, 32])
    return tf.reshape(pixels, [-1]) / 255.0, tf.zeros([1])


data = tf.data.Dataset.from_tensor_slices(images)
data = data.map(decode, num_parallel_calls=tf.data.AUTOTUNE)  # planted
if options.mended:
    data = data.batch(32).cache().repeat().prefetch(2)
else:
    data = data.repeat().batch(32).prefetch(2)

batches = iter(data)
while watch.running():
    begun = now()
    features, targets = next(batches)
    watch.took(begun)
    train_step(features, targets)
    watch.unit()
watch.finish()
