"""A profile arranged for one question each. Pure: no files, no text for people's eyes."""
