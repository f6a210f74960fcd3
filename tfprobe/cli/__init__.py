"""One file per command. Imports everything; nobody imports it."""
