"""Where tasks run: one small interface, one module for each kind of place."""
