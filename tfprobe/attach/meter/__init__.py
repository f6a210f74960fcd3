"""A small process that samples the accelerators of a job's machine once a second.

It is ours, not the job's: it shares none of the job's files, descriptors, terminal or process
group, and ends when the job ends. `tfprobe.launch.sidecars` starts it, and only if NVML can be
loaded.
"""
