"""The old tool's surface: its options, its reports, its shell, and its Python interface."""
