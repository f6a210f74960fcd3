"""What changed from one recording, A, to another, B, and whether that is more than chance."""
