"""Commands that record a job."""
