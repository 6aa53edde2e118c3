"""Values of blobs: their kinds, copies, and the form they have at an epoch boundary."""
