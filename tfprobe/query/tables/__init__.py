"""Runs as tables that SQL can be asked about: what they are, their rows, their Parquet files."""
