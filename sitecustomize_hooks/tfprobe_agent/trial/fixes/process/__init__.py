"""Fixes of whole processes, whatever they compute with."""
