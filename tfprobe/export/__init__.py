"""Files for other tools. Knows what they read; computes nothing that a view does not."""
