"""CSIDrivers. Source: pkg/apis/storage/{validation,v1}, ValidateCSIDriver; pkg/registry/storage/csidriver."""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.builtin_type import DEFAULT_GATES, BuiltinType
from apiserver.meta import table
from apiserver.meta.field_errors import Errors, duplicate, invalid, not_supported
from apiserver.meta.releases.gates import FeatureGates
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy
from apiserver.schema.compile import Default
from apiserver.schema.validation.checks import immutable, one_of_if_set
from apiserver.schema.validation.defaults import setting
from apiserver.schema.validation.documents import at, items


def builtin_type(gates: FeatureGates = DEFAULT_GATES) -> BuiltinType:
    return BuiltinType(
        "storage.",
        "v1",
        "csidrivers",
        "CSIDriver",
        is_namespaced=False,
        defaults={"io.k8s.api.storage.v1.CSIDriverSpec": _defaults(gates)},
        strategy=Strategy(
            returns_deleted=True,
            allows_unconditional_update=False,
            validate_ratcheting=validate_csi_driver,
            warn=warn_csi_driver if gates.is_on("CSIServiceAccountTokenSecrets") else _no_warnings,
            update=UpdateStrategy(prepare_csi_driver_update),
        ),
        columns=columns(
            _flag(
                "AttachRequired",
                "attachRequired",
                "Whether volumes must be attached before they are mounted.",
            ),
            _flag(
                "PodInfoOnMount",
                "podInfoOnMount",
                "Whether the driver gets information about the pod on mount.",
            ),
            _flag(
                "StorageCapacity",
                "storageCapacity",
                "Whether the scheduler respects the reported storage capacity.",
            ),
            Column("TokenRequests", _audiences, "The audiences of the driver's tokens."),
            _flag("RequiresRepublish", "requiresRepublish", "Whether mounts are refreshed periodically."),
            Column("Modes", _modes, "The lifecycle modes of the driver's volumes."),
            AGE,
        ),
    )


def _defaults(gates: FeatureGates) -> Default:
    later = {"preventPodSchedulingIfMissing": False} if gates.is_on("VolumeLimitScaling") else {}
    complete = setting(
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
        seLinuxMount=False,
        **later,
    )

    def complete_driver(spec: Document) -> None:
        complete(spec)
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    return complete_driver


_GROUP_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES: Final = ("Persistent", "Ephemeral")
_UPDATE_PERIOD_S_MIN: Final = 10
_TOKEN_S_MIN: Final = 600
_TOKEN_S_MAX: Final = 1 << 32


def prepare_csi_driver_update(new: Document, old: Document) -> None:
    """Increases the generation for changes of the spec; a new driver has none."""
    if new.get("spec") != old.get("spec"):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate_csi_driver(document: Document, old: Document | None) -> Errors:
    spec = document.get("spec", {})
    policy, period_s = spec.get("fsGroupPolicy"), spec.get("nodeAllocatableUpdatePeriodSeconds")
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    errors = one_of_if_set("spec.fsGroupPolicy", policy, _GROUP_POLICIES)
    errors += _token_requests(spec)
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES)
        for mode in spec.get("volumeLifecycleModes") or ()
        if mode not in _LIFECYCLE_MODES
    ]
    if period_s is not None and period_s < _UPDATE_PERIOD_S_MIN:
        text = f"must be greater than or equal to {_UPDATE_PERIOD_S_MIN} seconds"
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period_s, text))
    if in_secrets is not None and not spec.get("tokenRequests"):
        text = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, text))
    for field, shown in _IMMUTABLE.items() if old is not None else ():
        errors += immutable(f"spec.{shown}", spec.get(field), at(old or {}, "spec", field))
    return errors


# As Kubernetes shows them.
_IMMUTABLE: Final = {"attachRequired": "attachedRequired", "volumeLifecycleModes": "volumeLifecycleModes"}


def warn_csi_driver(new: Document, old: Document | None) -> list[str]:
    """Returns warnings about new token requests in volume attributes, which drivers may log."""
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    requests = spec.get("tokenRequests") or []
    if not requests or spec.get("serviceAccountTokenInSecrets") is not None:
        return []
    if old is not None and requests == (before.get("tokenRequests") or []):
        return []
    return [
        (
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
            "prevent possible logging of tokens in volume attributes"
        )
    ]


def _no_warnings(new: Document, old: Document | None) -> list[str]:
    return []


def _token_requests(spec: Document) -> Errors:
    errors: Errors = []
    audiences: set[str] = set()
    for where, request in items(spec, "tokenRequests", "spec"):
        audience, seconds = request.get("audience", ""), request.get("expirationSeconds")
        path = f"{where}.expirationSeconds"
        if audience in audiences:
            errors.append(duplicate(f"{where}.audience", audience))
        elif seconds is not None and seconds < _TOKEN_S_MIN:
            errors.append(invalid(path, seconds, "may not specify a duration less than 10 minutes"))
        elif seconds is not None and seconds > _TOKEN_S_MAX:
            errors.append(invalid(path, seconds, "may not specify a duration larger than 2^32 seconds"))
        audiences.add(audience)
    return errors


# ---- columns


def _flag(name: str, field: str, text: str) -> Column:
    return Column(name, field_cell("spec", field, default=False), text, type="boolean")


def _audiences(document: Document, now: float) -> str:
    requests = at(document, "spec", "tokenRequests") or ()
    return table.joined(requests, "audience") if requests else "<unset>"


def _modes(document: Document, now: float) -> str:
    return ",".join(at(document, "spec", "volumeLifecycleModes") or ()) or "<none>"
