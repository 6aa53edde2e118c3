"""A step, and a workspace to run it in."""
