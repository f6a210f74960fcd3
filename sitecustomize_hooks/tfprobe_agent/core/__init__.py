"""The recording of one process: its steps file, schedule, process folder, gaps and resource samples."""
