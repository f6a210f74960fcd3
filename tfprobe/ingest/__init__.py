"""From bytes to rows, and from a run directory to a profile."""
