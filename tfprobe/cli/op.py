"""`tfprobe op`: show which types of op a step spends its time in."""

from tfprobe.cli.views import view_command

command = view_command(
    "op",
    "Show which types of op a step spends its time in.",
    "Shares are of all ops. What tfprof calls the total of an entry, the sum to the end of",
    "the list, is not shown.",
)
