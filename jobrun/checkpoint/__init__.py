"""What is saved, where, and what is kept: plans (pure), the store, the HDF5 file."""
