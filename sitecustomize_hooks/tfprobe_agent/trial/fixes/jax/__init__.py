"""Fixes for JAX. All patch the package itself, once it has been imported."""
