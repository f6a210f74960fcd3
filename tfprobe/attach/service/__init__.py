"""Record jobs that tfprobe did not start, through the profiler service of their TensorFlow."""
