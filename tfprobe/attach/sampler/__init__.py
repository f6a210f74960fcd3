"""A separate process that runs py-spy to read the Python stacks of the job's processes.

It is ours, not the job's: it shares none of the job's files, descriptors, terminal or process
group, and ends when the job ends. `tfprobe.launch.sidecars` starts it for `tfprobe run --stacks`.
"""
