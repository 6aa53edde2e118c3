"""Render values as text for people: faults, sizes, durations, long integers, name suggestions.

- ``terminal_text``: foreign text made safe for a terminal.
- ``fault_text``: a fault with its source line. ``names``: "did you mean".
- ``patterns``: regular expressions, compiled at their first use.
- ``units``: sizes and durations. ``big_integers``: integers that Python refuses to print.
- ``object_url``: URLs of object stores.
"""
