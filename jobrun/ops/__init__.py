"""Operators by name: one table of signatures (no numpy), and their implementations."""
