"""Say what changed between recordings, as text and as Markdown."""
