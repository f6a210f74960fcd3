"""One file per command. Imports all other rooms; no room imports it."""
