"""Answer how long steps take, how that changes over a run, and why some take longer."""
