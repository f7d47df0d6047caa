"""What quotas count is measured: when their limits change, when something of it comes, changes or goes.

Admission adds to `status.used` what is about to be written; this takes off what is gone, and what was never
written after all. A measurement replaces the status that it began with or none, so that nothing admitted
meanwhile is lost. While objects are admitted all the time it may have to wait; at the latest a quota that is
used up stops changing. Several servers on one store all run this; to measure twice is harmless.
Source: kubernetes, pkg/controller/resourcequota.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from apiserver.brand import Brand
from apiserver.catalogue.core.resource_quotas.usage import QuotaEvaluator, UsageCalculation, uncounted
from apiserver.controllers.informer import follow_for_ever
from apiserver.errors import ApiError, Conflict, NotFound
from apiserver.meta.options import WriteOptions
from apiserver.registry.served_resource import ResourceTable, ServedResource
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import CorruptObject, StoredObject
from apiserver.vocabulary import Document
from storage.errors import StorageError
from storage.interface import ANY
from storage.keys import prefix_range

log = logging.getLogger(__name__)

# Between two measurements of a namespace: kubectl, controllers and tests write in bursts.
REST_S: Final = 1.0
# Large namespaces take long to measure. Whoever else needs the processor gets it 20 times as long.
REST_FACTOR: Final = 20
# What was admitted before this is written by now, and counts itself.
SETTLE_S: Final = 0.1
# Some usage ends without any change, and some changes may be missed. kube-controller-manager: 5 minutes.
RESYNC_S: Final = 300.0
RETRY_S: Final = 5.0
# So many objects are looked at before others have their turn.
TURN_OBJECTS: Final = 100
_VERBS: Final = frozenset({"create", "list", "delete"})


class ResourceQuotaController:
    def __init__(
        self,
        registry: Registry,
        table: Callable[[], ResourceTable],
        brand: Brand,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """clock: seconds since 1970."""
        self._registry = registry
        self._table = table
        self._brand = brand
        self._clock = clock
        # What each quota limits, by namespace and name.
        self._limits: dict[str, dict[str, frozenset[str]]] = {}
        self._informed: set[str] = set()  # prefixes of resources that some quota counts
        self._due: set[str] = set()  # namespaces
        self._is_due = asyncio.Event()

    async def run(self) -> None:
        """Measure until cancelled."""
        cache, prefix = self._registry.cache, self._registry.prefix_of(self._quotas())
        async with asyncio.TaskGroup() as tasks:

            def on_quota(key: str, found: StoredObject | None) -> None:
                namespace, _, name = key[len(prefix) :].partition("/")
                self._on_quota(tasks, namespace, name, found)

            tasks.create_task(follow_for_ever(cache, prefix, on_quota))
            tasks.create_task(self._resync(tasks))
            while True:
                await self._is_due.wait()
                self._is_due.clear()
                namespaces, self._due = self._due, set()
                began = time.monotonic()
                try:
                    await self._measure(namespaces)
                except StorageError as error:
                    log.warning("quotas cannot be measured yet: %s", error)
                    for namespace in namespaces:
                        self._look_at(namespace)
                    await asyncio.sleep(RETRY_S)
                await asyncio.sleep(max(REST_S, (time.monotonic() - began - SETTLE_S) * REST_FACTOR))

    # ---- what is due

    def _on_quota(
        self, tasks: asyncio.TaskGroup, namespace: str, name: str, found: StoredObject | None
    ) -> None:
        quotas = self._limits.setdefault(namespace, {})
        if found is None:
            quotas.pop(name, None)
            if not quotas:
                del self._limits[namespace]
            return
        try:
            names = frozenset((found.document().get("spec") or {}).get("hard") or ())
        except CorruptObject as error:
            log.warning("a quota cannot be measured: %s", error)
            return
        if quotas.get(name) != names:
            quotas[name] = names
            self._follow(tasks, names)
        # Whoever wrote it may have written something into its status.
        self._look_at(namespace)

    def _follow(self, tasks: asyncio.TaskGroup, names: frozenset[str]) -> None:
        """Follow the resources that quotas with such limits count."""
        for evaluator, prefix in self._evaluators():
            if prefix not in self._informed and any(map(evaluator.measures, names)):
                self._informed.add(prefix)
                on_object = self._counting(evaluator, len(prefix))
                tasks.create_task(follow_for_ever(self._registry.cache, prefix, on_object, only_changes=True))

    def _counting(
        self, evaluator: QuotaEvaluator, prefix_length: int
    ) -> Callable[[str, StoredObject | None], None]:
        def on_object(key: str, found: StoredObject | None) -> None:
            namespace = key[prefix_length:].partition("/")[0]
            if namespace in self._due:
                return
            if any(any(map(evaluator.measures, names)) for names in self._limits.get(namespace, {}).values()):
                self._look_at(namespace)

        return on_object

    def _look_at(self, namespace: str) -> None:
        self._due.add(namespace)
        self._is_due.set()

    async def _resync(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await asyncio.sleep(RESYNC_S)
            for namespace, quotas in self._limits.items():
                self._look_at(namespace)
                for names in quotas.values():  # Types may have come since.
                    self._follow(tasks, names)

    # ---- measuring

    async def _measure(self, namespaces: set[str]) -> None:
        """Raises the storage's errors."""
        waiting: dict[str, list[UsageCalculation]] = {}
        for namespace in namespaces:
            begun = await self._begin(namespace)
            # Nothing can have been admitted to what has no limits yet.
            if new := [each for each in begun if not each.has_limits]:
                await self._try_finish(namespace, new)
            if rest := [each for each in begun if each.has_limits]:
                waiting[namespace] = rest
        if waiting:
            await asyncio.sleep(SETTLE_S)
        for namespace, calculations in waiting.items():
            await self._try_finish(namespace, calculations)

    async def _begin(self, namespace: str) -> list[UsageCalculation]:
        prefix = self._registry.prefix_of(self._quotas())
        listing = await self._registry.cache.list(prefix_range(f"{prefix}{namespace}/"), ANY)
        return [
            UsageCalculation(version.value.document())
            for version in listing.versions
            if version.value is not None and version.value.head
        ]

    async def _try_finish(self, namespace: str, calculations: Sequence[UsageCalculation]) -> None:
        """Raises the storage's errors."""
        try:
            await self._finish(namespace, calculations)
        except (ApiError, CorruptObject) as error:
            log.warning("quotas of namespace %s cannot be measured: %s", namespace, error)
        except StorageError:
            raise
        except Exception:  # An object that breaks us must not stop the other measurements, or the server.
            log.exception("quotas of namespace %s cannot be measured", namespace)

    async def _finish(self, namespace: str, calculations: Sequence[UsageCalculation]) -> None:
        for evaluator, prefix in self._evaluators():
            if asking := [(each, names) for each in calculations if (names := each.begin(evaluator))]:
                await self._count(evaluator, f"{prefix}{namespace}/", asking)
        for each in calculations:
            if (status := each.status()) is None:
                continue
            try:
                await self._write(namespace, each.quota, status)
            except Conflict:
                self._look_at(namespace)
            except NotFound:
                pass  # It is gone.

    async def _count(
        self, evaluator: QuotaEvaluator, folder: str, asking: Sequence[tuple[UsageCalculation, list[str]]]
    ) -> None:
        versions = (await self._registry.cache.list(prefix_range(folder))).versions
        closely = []
        for calculation, names in asking:
            if evaluator.only_counts(names) and not calculation.has_scopes:
                calculation.add_objects(len(versions), names)
            else:
                closely.append((calculation, names))
        if not closely:
            return
        now = self._clock()
        for number, version in enumerate(versions):
            if number % TURN_OBJECTS == 0:
                await asyncio.sleep(0)
            assert version.value is not None
            document = version.value.document()
            usage = evaluator.usage(document, now)
            for calculation, names in closely:
                if evaluator.is_in_scope(calculation.quota, document):
                    calculation.add(usage, names)

    async def _write(self, namespace: str, quota: Document, status: Document) -> None:
        """Raises Conflict if the quota has changed since."""
        resource, meta = self._quotas(), quota["metadata"]

        def with_status(found: StoredObject) -> Document:
            document = found.document()
            document["metadata"]["resourceVersion"] = meta["resourceVersion"]
            return {**document, "status": {**status}}

        await self._registry.update(
            resource,
            namespace,
            meta["name"],
            with_status,
            WriteOptions(),
            strategy=resource.subresources["status"].update,
        )

    # ---- what there is

    def _evaluators(self) -> list[tuple[QuotaEvaluator, str]]:
        """For each type that can be counted, and its prefix."""
        left_out = uncounted(self._brand)
        by_name = {
            each.stored_group_resource: each
            for each in self._table().resources
            if each.is_namespaced and set(each.verbs) >= _VERBS and each.stored_group_resource not in left_out
        }
        return [
            (QuotaEvaluator(name, self._brand), self._registry.prefix_of(resource))
            for name, resource in by_name.items()
        ]

    def _quotas(self) -> ServedResource:
        found = self._table().find("", "v1", "resourcequotas")
        assert found is not None
        return found
