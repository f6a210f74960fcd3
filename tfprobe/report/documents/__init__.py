"""Make one document of each answer, as JSON and the pages have it."""
