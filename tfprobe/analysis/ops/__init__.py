"""Say what ops cost: by type, by name scope, by graph, by line of code."""
