"""Restricts the users that may change each part of a ResourceClaim's status.

The scheduler writes the allocation and its consumers, and a driver the state of its devices: permission for
the status is not enough. This check cannot be disabled like a plugin, since Kubernetes has it in the storage
of the type. It depends on the gate DRAResourceClaimGranularStatusAuthorization.
Source: k8s.io/kubernetes, pkg/registry/resource/authorization.go (release 1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from apiserver.admission.chain import AdmissionAttributes, Plugin, updates
from apiserver.admission.plugin_context import PluginContext
from apiserver.auth.authn.impersonation import service_account_of
from apiserver.auth.authz.attributes import Attributes, Decision, decided, forbidden
from apiserver.catalogue.resource.device_status import Share, share_of
from apiserver.load.size_class import size_class_of_document
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, FieldError
from apiserver.meta.field_errors import forbidden as forbidden_field
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.vocabulary import Document, GroupResource, UserInfo
from apiserver.registry.stored_object import TooDeep
from apiserver.schema.validation.documents import at
from apiserver.storage.event_loop_turns import in_turns

GATE: Final = "DRAResourceClaimGranularStatusAuthorization"
_BINDING: Final = ("allocation", "reservedFor")
# A value that drivers choose, whose every byte counts.
_OPAQUE: Final = "data"


class StatusChanges(NamedTuple):
    """The changes that a write makes to a claim's status: its binding, and the drivers whose device state
    differs.
    """

    binding: bool
    drivers: Sequence[str] = ()


class ResourceClaimStatus(Plugin):
    """Checks writes of a claim's status; it has no name by which it could be disabled."""

    def __init__(self, context: PluginContext, gates: FeatureGates) -> None:
        self._authorize = context.authorize
        self._claims = GroupResource(context.brand.group("resource"), "resourceclaims")
        self.handled = updates(self._claims, subresource="status")
        self._node_key = f"authentication.{context.brand.vendor}.io/node-name"
        self._has_devices = gates.is_on("DRAResourceClaimDeviceStatus")

    async def check(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[FieldError]:
        status, before = new.get("status") or {}, (old or {}).get("status") or {}
        size = size_class_of_document({"new": status, "old": before})
        changes = await attributes.offload.run_begun(size, changes_of, status, before)
        errors = await self._binding(attributes) if changes.binding else []
        if self._has_devices and changes.drivers:
            node = allocated_node(status["allocation"])
            errors += await self._drivers(attributes, changes.drivers, node)
        return errors

    async def _binding(self, attributes: AdmissionAttributes) -> Errors:
        verb = attributes.verb
        why = await self._refusal(self._asked(attributes, verb, "binding"))
        if not why:
            return []
        text = "changing status.allocation or status.reservedFor requires "
        text += f'resource="resourceclaims/binding", verb="{verb}" permission: {why}'
        return [forbidden_field("status.allocation", text)]

    async def _drivers(self, attributes: AdmissionAttributes, drivers: Sequence[str], node: str) -> Errors:
        verbs = [f"arbitrary-node:{attributes.verb}"]
        if self._runs_on(attributes.user, node):
            verbs.insert(0, f"associated-node:{attributes.verb}")
        errors: Errors = []
        # There may be thousands.
        async for driver in in_turns(drivers):
            refusals = []
            for verb in verbs:
                asked = self._asked(attributes, verb, "driver", attributes.namespace, driver)
                if not (why := await self._refusal(asked)):
                    break
                refusals.append(why)
            else:
                text = 'changing status.devices requires resource="resourceclaims/driver", '
                text += f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
                errors.append(forbidden_field("status.devices", text))
        return errors

    def _runs_on(self, user: UserInfo, node: str) -> bool:
        """Returns whether the caller is the service account of a pod on a node. node: empty if none is
        known.
        """
        if not node or service_account_of(user.name) is None or names.dns_subdomain(node):
            return False
        return [value for key, values in user.extra if key == self._node_key for value in values] == [node]

    def _asked(
        self,
        attributes: AdmissionAttributes,
        verb: str,
        subresource: str,
        namespace: str = "",
        name: str = "",
    ) -> Attributes:
        return Attributes(
            attributes.user,
            verb,
            group=self._claims.group,
            resource=self._claims.resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
            version=attributes.resource.group_version.version,
        )

    async def _refusal(self, asked: Attributes) -> str:
        """Returns why something is not allowed; empty if it is allowed."""
        verdict = await decided(self._authorize, asked)
        if verdict.decision is Decision.ALLOW:
            return ""
        return str(forbidden(asked, ": ".join(each for each in (verdict.error, verdict.reason) if each)))


def changes_of(status: Document, before: Document) -> StatusChanges:
    """Returns the differences between two statuses. Raises BadRequest if one is nested too deeply."""
    binding = any(_differ(status.get(field), before.get(field)) for field in _BINDING)
    if status.get("allocation") is None:
        # Then there is no state of devices, either.
        return StatusChanges(binding)
    new, old = _by_share(status), _by_share(before)
    changed = (share for share in new.keys() | old.keys() if _differ(new.get(share), old.get(share)))
    return StatusChanges(binding, sorted({share[0] for share in changed}))


def _by_share(status: Document) -> Mapping[Share, Document]:
    return {share_of(each): each for each in status.get("devices") or ()}


def allocated_node(allocation: Document) -> str:
    """Returns the only node to which the claim is allocated; empty if there may be others."""
    match at(allocation, "nodeSelector", "nodeSelectorTerms"):
        case [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [str(name)]}]} as term]:
            return "" if term.get("matchExpressions") else name
    return ""


def _differ(new: Any, old: Any) -> bool:
    return _comparable(new) != _comparable(old)


def _comparable(value: Any) -> bytes:
    try:
        return orjson.dumps(_without_nothing(value), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        raise TooDeep from None


def _without_nothing(value: Any) -> Any:
    """Returns a value without nulls and empty lists, which are equal in Go; null for one of these."""
    if isinstance(value, dict):
        pairs = ((k, v if k == _OPAQUE else _without_nothing(v)) for k, v in value.items())
        return {k: v for k, v in pairs if v is not None}
    if isinstance(value, list):
        return [_without_nothing(each) for each in value] or None
    return value
