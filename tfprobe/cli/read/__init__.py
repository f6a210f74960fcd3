"""Commands that answer a question about a recording."""
