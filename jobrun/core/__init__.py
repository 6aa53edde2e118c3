"""What every layer may use: places, names, errors, events. Standard library only."""
