"""What holds memory: by device and allocator in traced steps, and on the host over time.

docs/memory.md has the definitions; `memory_summary` is the entry point.
"""
