"""What holds memory: on each device and allocator within captured steps, and on the host over time.

docs/memory.md has the definitions; `memory_summary` is where to begin.
"""
