"""jobrun: long iterative numeric jobs from a YAML spec, killed anywhere, resumed bit for bit."""

from __future__ import annotations

from jobrun.version import __version__

__all__ = ["__version__"]
