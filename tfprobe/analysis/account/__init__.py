"""Account for the wall time of a run, from exec to exit: every moment is in exactly one category.

Start reading at `account.process_account`; docs/account.md has the definitions.
"""
