"""Finding runs and telling how they stand, from their files alone."""
