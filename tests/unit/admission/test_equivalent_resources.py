"""What is derived from a table of resources goes with it: nothing of definitions that are gone is kept."""

from __future__ import annotations

import gc
import weakref

from apiserver.admission.reviewed_write import EquivalentResources
from apiserver.meta.vocabulary import GroupResource
from apiserver.registry.served_resource import ResourceTable, ServedTable


def test_a_table_that_is_replaced_is_not_kept() -> None:
    served = ServedTable(ResourceTable(()))
    equivalents = EquivalentResources(served)
    assert equivalents.of(GroupResource("", "pods")) == ()
    replaced = weakref.ref(served.current)
    served.current = ResourceTable(())
    gc.collect()
    assert replaced() is None
