"""Watch runs on the terminal: the page that `tfprobe top` keeps up to date, and its one table."""
