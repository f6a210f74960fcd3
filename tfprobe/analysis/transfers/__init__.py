"""Say what moves between devices and processes in a step."""
