"""What each page shows, as one JSON document. Pure: no files but the run's, no HTTP, no HTML."""
