"""Delays of parts that no fix reaches: each makes a part take `value` percent longer, to see what that costs."""
