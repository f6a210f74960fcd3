"""The wrappers around the steps of each framework, and how a step is traced."""
