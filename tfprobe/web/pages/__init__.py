"""What each page shows, as one JSON document. Pure: no files beside the run's, no HTTP, no HTML."""
