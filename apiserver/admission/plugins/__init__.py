"""The admission plugins that a server has of its own, as kube-apiserver has them switched on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from apiserver.admission.chain import Plugin
from apiserver.registry.served_resource import ResourceTable
from apiserver.registry.store import Registry


def builtin_plugins(registry: Registry, table: Callable[[], ResourceTable]) -> Sequence[Plugin]:
    """In the order in which they are asked, which is kube-apiserver's."""
    return ()
