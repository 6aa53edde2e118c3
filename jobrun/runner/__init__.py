"""When things run: the run directory, the epoch loop, what a resume does."""
