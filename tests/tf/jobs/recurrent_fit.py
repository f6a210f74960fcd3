"""A fit of a bidirectional LSTM whose batch is fixed: it says how many parameters its model has."""

import numpy
import tensorflow as tf

STEPS, BATCH, TIME, WIDTH, UNITS = 10, 32, 6, 8, 16


def main():
    layers = tf.keras.layers
    given = layers.Input(batch_shape=(BATCH, TIME, WIDTH))
    made = layers.Dense(4)(layers.Bidirectional(layers.LSTM(UNITS))(given))
    model = tf.keras.Model(given, made)
    model.compile("adam", "mse")
    rows = numpy.ones([STEPS * BATCH, TIME, WIDTH], numpy.float32)
    data = tf.data.Dataset.from_tensor_slices((rows, rows[:, 0, :4])).batch(BATCH, True)
    model.fit(data, verbose=0)
    print("PARAMETERS", model.count_params())


main()
