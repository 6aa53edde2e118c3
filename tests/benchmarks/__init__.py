"""Ratios, printed by ``make bench``. No test depends on a time."""
