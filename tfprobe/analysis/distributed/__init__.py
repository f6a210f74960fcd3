"""Compare the processes of a job: their clocks, who is slow, and who waits for whom."""
