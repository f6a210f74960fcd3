"""Real kernels of Jupyter, recorded by their front ends."""
