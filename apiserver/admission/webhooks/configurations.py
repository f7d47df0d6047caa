"""All webhooks of one kind, from configurations in the watch cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apiserver.admission.compiled_objects import CompiledObjects
from apiserver.admission.listers import Lister
from apiserver.admission.webhooks.webhook import AdmissionWebhook
from apiserver.load.offload import Offload
from apiserver.meta.vocabulary import Document, GroupResource


class WebhookConfigurations(CompiledObjects[AdmissionWebhook]):
    """The webhooks in all configurations, ordered by the names of these, and then as listed in each."""

    def __init__(self, lister: Lister, offload: Offload) -> None:
        super().__init__(lister, _webhooks_in, offload)

    def may_concern(self, resources: Iterable[GroupResource], subresource: str, operation: str) -> bool:
        """Returns whether any webhook may have to be called for writes of these equivalent resources.

        True while this is unknown.
        """
        webhooks = self.known
        if webhooks is None:
            return True
        return any(
            rule.concerns(group, resource, subresource, operation)
            for group, resource in resources
            for webhook in webhooks
            for rule in webhook.rules
        )


def _webhooks_in(document: Document) -> Sequence[AdmissionWebhook]:
    name = document["metadata"]["name"]
    return [AdmissionWebhook.of(name, each) for each in document.get("webhooks") or ()]
