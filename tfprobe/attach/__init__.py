"""Stand beside jobs: ask a profiler service, read stacks, sample accelerators."""
