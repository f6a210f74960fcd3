"""`tfprobe try`: apply fixes to a job, measure what they win. Starts jobs; shows nothing."""
