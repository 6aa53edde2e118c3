"""Read and write data files: npy, npz, HDF5, csv, tsv, parquet.

- ``load_save``: whole members, by the ending of the name. ``rows``: records one after another, for
  readers; ``ragged``: rows that differ in length.
- ``npy`` (and npz), ``hdf5``, ``csv``, ``parquet``: one format each.
- ``headers``: what a file holds, without its data. ``errors``: what is refused.
"""
