"""Answer questions about a recording. Computes; shows nothing."""
