"""Telling how two values, two checkpoints or two runs differ."""
