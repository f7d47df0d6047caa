"""Writes type errors of expressions into the status of ValidatingAdmissionPolicies.

Source: kubernetes, pkg/controller/validatingadmissionpolicystatus.
"""

from __future__ import annotations

from typing import Final

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.informer import Notification, resource_informer
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.policy_type_checking.type_checker import (
    WARNINGS_LENGTH_MAX,
    TypeChecker,
    expressions_of,
    types_to_check,
    warning,
)
from apiserver.load.offload import Offload
from apiserver.load.size_class import SizeClass
from apiserver.meta.brand import Brand
from apiserver.meta.errors import Conflict, NotFound
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.registry.store import Registry
from apiserver.registry.stored_object import StoredObject
from apiserver.registry.write_request import InternalWriter, ProposedObject, WriteRequest
from apiserver.storage.interface import ANY

GROUP: Final = "admissionregistration"
RESOURCE: Final = "validatingadmissionpolicies"
BACKOFF: Final = Backoff(base_s=0.5, max_s=60.0)
_APPLIED: Final = ("observedGeneration", "typeChecking")
_WRITER: Final = InternalWriter(
    "validatingadmissionpolicy-status",
    "status",
    lambda new: {"status": {name: new["status"][name] for name in _APPLIED}},
)


class PolicyTypeChecking:
    """The controller that checks policies, whose keys are names of policies."""

    def __init__(self, registry: Registry, served: ServedTable, brand: Brand, offload: Offload) -> None:
        self._registry = registry
        self._served = served
        self._group = brand.group(GROUP)
        self._offload = offload
        self.queue: WorkQueue[str] = WorkQueue("validatingadmissionpolicy-status", BACKOFF)

    async def run(self) -> None:
        """Check policies until cancelled."""
        informer = resource_informer(self._registry, self._policies(), self._on_policy, queue=self.queue)
        await Controller(self.queue, self._reconcile, informers=[informer]).run()

    def _on_policy(self, notification: Notification) -> None:
        if notification.new is not None:
            self.queue.add(notification.name)

    async def _reconcile(self, name: str) -> Outcome:
        policies = self._policies()
        try:
            policy = await self._offload.document(await self._registry.get(policies, "", name, ANY))
            generation = policy["metadata"].get("generation", 0)
            if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
                return None
            await self._write(policy, await self._warnings(policy))
        except NotFound:
            pass
        except Conflict:  # It has changed meanwhile.
            return Requeue()
        return None

    async def _warnings(self, policy: Document) -> list[Document]:
        table = self._served.current
        kind = policy["spec"].get("paramKind") or {}
        params = next(
            (
                each
                for each in table.resources
                if (each.api_version, each.kind) == (kind.get("apiVersion"), kind.get("kind"))
            ),
            None,
        )
        checkers = []
        for resource in await self._offload.run_begun(SizeClass.LARGE, types_to_check, policy, table):
            for each in (resource, params):
                if each is not None:
                    await self._prepare(each)
            checkers.append(
                await self._offload.run_begun(SizeClass.HUGE, TypeChecker, policy, resource, params)
            )
        found: list[Document] = []
        length = 0
        for expression in expressions_of(policy) if checkers else ():
            problems = [
                await self._offload.run_begun(SizeClass.LARGE, checker.problem, expression.text)
                for checker in checkers
            ]
            if (warned := warning(expression, problems)) is not None:
                length += len(warned["warning"])
                if length > WARNINGS_LENGTH_MAX:
                    break
                found.append(warned)
        return found

    async def _prepare(self, resource: ServedResource) -> None:
        for each in resource.preparations:
            if each.is_due:
                await self._offload.run_begun(SizeClass.HUGE, each.prepare)

    async def _write(self, policy: Document, warnings: list[Document]) -> None:
        """Write the status of a policy."""
        resource, meta = self._policies(), policy["metadata"]
        checking = {"expressionWarnings": warnings} if warnings else {}

        def with_status(found: StoredObject) -> ProposedObject:
            document = found.document()
            document["metadata"]["resourceVersion"] = meta["resourceVersion"]
            status = {
                **(document.get("status") or {}),
                "observedGeneration": meta["generation"],
                "typeChecking": checking,
            }
            return ProposedObject({**document, "status": status})

        rules = resource.subresources["status"].update
        request = WriteRequest(
            resource=resource, namespace="", name=meta["name"], update=rules, writer=_WRITER
        )
        await self._registry.update(request, with_status)

    def _policies(self) -> ServedResource:
        return self._served.require(self._group, RESOURCE)
