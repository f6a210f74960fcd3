"""A trial: a job runs for some steps with fixes applied from outside, to measure what they gain."""
