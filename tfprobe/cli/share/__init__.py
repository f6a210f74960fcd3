"""Commands that compare runs, and hand them to others."""
