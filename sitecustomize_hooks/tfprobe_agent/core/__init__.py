"""The recording of one process: its steps file, schedule, process folder and resource samples."""
