"""Allows claims access to devices in use by others only in namespaces labelled for admin access.

Such access is for administrators, who monitor devices, or repair them; users who may label a namespace grant
it. The check cannot be disabled, as Kubernetes has it in the storage of these types, from 1.34 on. Source:
k8s.io/kubernetes, pkg/registry/resource/utils.go; KEP-5018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.admission.chain import AdmissionAttributes, Plugin, creates, updates
from apiserver.admission.plugin_context import PluginContext
from apiserver.meta.field_errors import FieldError, forbidden
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.schema.validation.documents import at

# The first release whose API server checks by default.
SINCE: Final = 34


class DeviceAdminAccess(Plugin):
    """Checks admin access of claims; it has no name by which it could be disabled."""

    def __init__(self, context: PluginContext) -> None:
        group = context.brand.group("resource")
        claims, templates = (
            GroupResource(group, "resourceclaims"),
            GroupResource(group, "resourceclaimtemplates"),
        )
        # What is asked for cannot be changed later.
        self.handled = creates(claims, templates) | updates(claims, subresource="status")
        self._label = f"resource.{context.brand.vendor}.io/admin-access"
        self._namespaces = context.lister("", "namespaces")

    async def check(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[FieldError]:
        """Returns an error for admin access in a namespace without the label. Raises the storage's errors."""
        if attributes.subresource:
            path = "" if old is not None and _granted(old) else _granted(new)
        else:
            path = _asked(new)
        if not path:
            return ()
        namespace = await self._namespaces.get_live_document(attributes.namespace)
        if at(namespace or {}, "metadata", "labels", self._label) == "true":
            return ()
        text = f"admin access to devices requires the `{self._label}: true` label on the containing namespace"
        return [forbidden(path, text)]


def _asked(document: Document) -> str:
    """Returns the field by which a claim, or a template of claims, requests admin access; empty if none
    does.
    """
    spec = document.get("spec") or {}
    requests = at(spec, "devices", "requests") or at(spec, "spec", "devices", "requests") or ()
    for index, request in enumerate(requests):
        # v1beta1 has it in the request itself.
        if (request.get("exactly") or request).get("adminAccess"):
            return f"spec.devices.requests[{index}].adminAccess"
    return ""


def _granted(document: Document) -> str:
    """Returns the field by which a claim has admin access; empty if it has none."""
    for index, result in enumerate(at(document, "status", "allocation", "devices", "results") or ()):
        if result.get("adminAccess"):
            return f"status.allocation.devices.results[{index}].adminAccess"
    return ""
