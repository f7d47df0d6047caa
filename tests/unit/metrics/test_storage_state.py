"""Whether the store works, as metrics show it."""

from __future__ import annotations

from typing import Final

import pytest

from apiserver.metrics.storage_state import StorageStateMetrics
from apiserver.storage.errors import StorageError, StorageFull, StorageUnavailable


class Store:
    """A store with a size, or one that fails. failure: the error of its health check."""

    def __init__(self, failure: StorageError | None) -> None:
        self.failure = failure

    async def size_bytes(self) -> int:
        if isinstance(self.failure, StorageUnavailable) and not isinstance(self.failure, StorageFull):
            raise self.failure
        return 4096

    async def check_health(self) -> None:
        if self.failure is not None:
            raise self.failure


# The values of apiserver_storage_size_bytes, _available and _full; None where there is no series.
STATES: Final[dict[str, tuple[StorageError | None, list[int | None]]]] = {
    "a store that works": (None, [4096, 1, 0]),
    "a full store can be read": (StorageFull("the space quota is exceeded"), [4096, 1, 1]),
    "nothing else is known of a store that cannot be read": (
        StorageUnavailable("no leader"),
        [None, 0, None],
    ),
}


@pytest.mark.parametrize(("failure", "values"), STATES.values(), ids=STATES)
async def test_the_state_of_the_store(failure: StorageError | None, values: list[int | None]) -> None:
    metrics = StorageStateMetrics("embedded", Store(failure), 30.0)
    assert "".join(line for family in metrics.families() for line in family.series) == "", "not read yet"
    await metrics.read()
    found = {family.name: "".join(family.series) for family in metrics.families()}
    names = ("size_bytes", "available", "full")
    assert found == {
        f"apiserver_storage_{name}": ""
        if value is None
        else f'apiserver_storage_{name}{{storage_cluster_id="embedded"}} {value}\n'
        for name, value in zip(names, values, strict=True)
    }
