"""From a spec to a checked graph: pure, linear, and executing nothing."""
