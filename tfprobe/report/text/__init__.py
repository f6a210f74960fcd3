"""Reports as text for people. The only room, with cli, that formats numbers."""
