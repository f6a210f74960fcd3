"""Shared by all analyses: intervals, statistics, names, lines of code, kinds of ops."""
