"""Hold what several questions need: intervals, statistics, names, lines of code, kinds of op."""
