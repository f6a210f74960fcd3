"""The run directory: its paths, manifests, step records, events, and which runs there are."""
