"""Implement the commands that explain jobrun: explain, ops, and completion in shells."""
