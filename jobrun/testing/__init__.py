"""Test what plug-ins promise: contracts as classes of tests for pytest, to be subclassed.

- ``operators``: operators of expressions. ``adapters``: values of other libraries.
  ``sessions``: where tasks run. ``stores``: where checkpoints are kept. ``metadata``: who decides
  from which epoch a run continues. ``listeners``: who gets metrics.
- ``graphs``: tasks and groups from short Python text, for tests that need no spec.

Nothing else in jobrun imports this package, and only this package needs pytest.
"""

import pytest

# As in a test module: a failed assert shows the values that it compared.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{name}"
        for name in (
            "adapters",
            "graphs",
            "listeners",
            "metadata",
            "operators",
            "sessions",
            "stores",
        )
    )
)
