"""One traced step on a time axis."""
