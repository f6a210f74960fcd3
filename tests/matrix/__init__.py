"""Run tests/tf in every Python and TensorFlow of the matrix. Holds no test of its own."""
