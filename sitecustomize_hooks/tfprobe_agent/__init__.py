"""The agent: what lives inside the recorded job. Standard library only, Python 3.6 to 3.13, silent."""
