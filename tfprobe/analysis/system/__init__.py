"""Say what the machine, the runtime and the threads of a process did."""
