"""Metrics of all runs below a directory, for Prometheus and OpenTelemetry. Asks no job."""
