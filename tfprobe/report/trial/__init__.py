"""Say what a trial of fixes found, as a document and as text."""
