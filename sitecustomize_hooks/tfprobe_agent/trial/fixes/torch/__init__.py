"""Fixes for PyTorch. All patch the package itself, once it has been imported."""
