"""Commands about running jobs."""
