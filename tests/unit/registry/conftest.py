"""A registry over an embedded store, without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from apiserver.registry.store import Registry
from apiserver.storage.embedded import EmbeddedStore
from tests.support.in_process import server


@pytest.fixture
async def registry(store: EmbeddedStore) -> AsyncIterator[Registry]:
    async with server(store) as registry:
        yield registry
