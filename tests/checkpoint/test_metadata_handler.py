from __future__ import annotations

import pytest

from jobrun.testing.metadata import MetadataContract
from tests.support.metadata_handler import Remembering


class TestRemembering(MetadataContract):
    @pytest.fixture
    def handler(self):
        return Remembering()
