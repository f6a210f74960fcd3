"""Commands that remove runs, and TensorFlow's old tools."""
