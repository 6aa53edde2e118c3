"""Adapt values of other libraries, so that blobs and states may hold them; no pickle.

An adapter takes a value apart into a tree of arrays, numbers, text and bytes, and makes it again,
or sets an object's state from it. What it makes is taken apart again and compared.

- ``registry``: what an adapter is, which one a class has, and adapters of a user's own.
- ``standard``: the standard library. ``reduce_protocol``: objects by ``__reduce_ex__``, as
  the module ``copy`` does it, for the libraries whose classes support it.
- Each other module: the library of its name. It is loaded when a value of the library is met.
"""
