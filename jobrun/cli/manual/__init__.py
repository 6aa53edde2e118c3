"""Implement the commands that explain jobrun: explain and ops."""
