"""Turn bytes into tables and nothing else."""
