"""Fill the tables of a profile from a run directory, whole or growing, or from a single file."""
