"""All webhooks of one kind, as the watch cache has their configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from apiserver.admission.listers import Lister
from apiserver.admission.webhooks.webhook import AdmissionWebhook
from apiserver.registry.offload import Offload
from apiserver.registry.size_class import SizeClass
from apiserver.registry.stored_object import StoredObject
from apiserver.vocabulary import GroupResource


class WebhookConfigurations:
    """The webhooks in all configurations, ordered by the names of these, and then as each lists them.

    A configuration is compiled when the first write after its change asks for it, off the event loop: it may
    have hundreds of match conditions. One that is damaged has been logged, and has no webhooks.
    """

    def __init__(self, lister: Lister, offload: Offload) -> None:
        self._lister = lister
        self._offload = offload
        self._webhooks: Sequence[AdmissionWebhook] = ()
        # What the lister's stamp was when they were compiled.
        self._compiled_at: object | None = None
        self._by_object: WeakKeyDictionary[StoredObject, Sequence[AdmissionWebhook]] = WeakKeyDictionary()

    def stamp(self) -> object:
        """Returns a value that changes whenever `may_concern` may answer otherwise than before."""
        stamp = self._lister.stamp()
        return object() if stamp is None else (stamp, stamp == self._compiled_at)

    def may_concern(self, resources: Iterable[GroupResource], subresource: str, operation: str) -> bool:
        """Returns whether any webhook may have to be asked about writes of these equivalent resources.

        True if that is not known yet.
        """
        stamp = self._lister.stamp()
        if stamp is None or stamp != self._compiled_at:
            return True
        return any(
            rule.concerns(group, resource, subresource, operation)
            for group, resource in resources
            for webhook in self._webhooks
            for rule in webhook.rules
        )

    async def webhooks(self) -> Sequence[AdmissionWebhook]:
        """Raises the storage's errors."""
        stamp = self._lister.stamp()
        if stamp is not None and stamp == self._compiled_at:
            return self._webhooks
        found: list[AdmissionWebhook] = []
        for each in await self._lister.list_undamaged():
            compiled = self._by_object.get(each)
            if compiled is None:
                compiled = await self._offload.run_begun(SizeClass.HUGE, _webhooks_in, each)
                self._by_object[each] = compiled
            found += compiled
        if stamp == self._lister.stamp():  # It has not changed meanwhile.
            self._webhooks, self._compiled_at = found, stamp
        return found


def _webhooks_in(stored: StoredObject) -> Sequence[AdmissionWebhook]:
    document = stored.document()
    name = document["metadata"]["name"]
    return [AdmissionWebhook.of(name, each) for each in document.get("webhooks") or ()]
