"""Look at runs while they run, at a cost that is bounded, and ask them for samples."""
