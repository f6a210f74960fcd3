"""What a trial asks of each framework: seeds for what it draws, and the weights that it trains.

A module has `MODULES`, the names of the modules to patch; `patch(name, module, seed)`, called with each of them once it
has run; `arrays()`, which returns the trained arrays as pairs of a name and a NumPy array, or the reason, a text, why
there are none; and `ORDERED`, whether those of two arms are in the same order although their numbers differ.
"""

# In the order in which their weights are written.
FRAMEWORKS = ("tensorflow", "keras", "torch", "jax")
