"""How a job states what it did, for a test to compare with what was recorded."""

import json
import sys


def fact(name, kinds, has, counts, raised=0):
    """State that works of `kinds` with one of `has` in their name completed exactly these steps."""
    kinds = [kinds] if isinstance(kinds, str) else kinds
    has = [has] if isinstance(has, str) else has
    counts = sorted(counts) if isinstance(counts, (list, tuple)) else [counts]
    stated = {"name": name, "kinds": kinds, "has": has, "counts": counts, "raised": raised}
    print("FACT " + json.dumps(stated, sort_keys=True))
    sys.stdout.flush()


def absent(name, reason):
    """State that this TensorFlow has no such feature."""
    print("ABSENT " + json.dumps({"name": name, "reason": reason}, sort_keys=True))
    sys.stdout.flush()
