"""The server of `tfprobe ui`: who may ask what, and how answers travel."""
