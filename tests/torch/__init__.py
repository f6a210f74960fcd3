"""Jobs of PyTorch, run bare and recorded in the interpreter TFPROBE_TEST_PYTHON."""
