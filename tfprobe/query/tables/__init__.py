"""Runs as SQL tables: their definitions, their rows, and their Parquet files."""
