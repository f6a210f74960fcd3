"""Observe jobs from outside: through a profiler service, by reading stacks, by sampling GPUs."""
