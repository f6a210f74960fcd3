"""Arrange many runs, or all processes of one, side by side."""
