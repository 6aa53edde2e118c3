"""Build and parse the bytes of an HDF5 checkpoint file; no file is opened here.

- ``metadata_bytes``, ``metadata_template``: HDF5 metadata (object headers, B-trees, heaps) as
  bytes.
- ``user_block``, ``index_parser``: the 4096 bytes before HDF5 begins, and the index of blobs.
- ``dtypes``, ``dataset_names``: the dtypes that HDF5 stores, and blob names as HDF5 names.
- ``file_layout``, ``digest_blocks``: offsets of blobs, and the blocks that are digested.
- ``value_codec``: values to arrays that HDF5 can hold, and back. ``value_digest``: digests of
  values as they are in memory.
- ``filters``: compress and decompress chunks.
"""
