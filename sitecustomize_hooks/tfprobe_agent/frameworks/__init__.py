"""The wrappers around the steps of TensorFlow and Keras, and how a step is traced."""
