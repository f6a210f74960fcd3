"""Float operations of ops, computed from shapes."""
