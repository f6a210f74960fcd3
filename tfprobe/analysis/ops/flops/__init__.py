"""Float operations of ops, computed from shapes: as tfprof does, and better."""
