"""Runs in remote storage: a local mirror that readers read, and pushing."""
