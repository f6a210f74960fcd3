"""A process beside a job that has py-spy read the Python stacks of the job's processes.

It is ours, not the job's: it has none of the job's files, descriptors, terminal or process group,
and ends when the job has. `tfprobe.launch.sidecars` starts it for `tfprobe run --stacks`.
"""
