"""Readers and writers of data files; the only layer besides checkpoint that knows h5py."""
