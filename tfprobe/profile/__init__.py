"""A recording in memory: columnar tables with interned strings. Knows no files."""
