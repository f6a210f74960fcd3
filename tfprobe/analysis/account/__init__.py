"""Account for the wall time of a run, from exec to exit: every moment is in exactly one category.

`account.of_process` is where to begin; docs/account.md has the definitions.
"""
