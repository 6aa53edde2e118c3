"""Runs as one page of HTML that needs nothing else, and as files for TensorBoard."""
