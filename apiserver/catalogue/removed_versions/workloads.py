"""Deployments, DaemonSets, ReplicaSets and StatefulSets of versions before apps/v1.

Common rules of these versions: labels and selector default to those of the pods (not in apps/v1beta2), a
selector may change (not in apps/v1beta2), dependents are orphaned by default, and scales have separate kinds.
Two fields were removed; apps/v1 has them in annotations. Source: pkg/apis/{apps,extensions}/VERSION
(conversion.go, defaults.go) and pkg/registry/apps/*/strategy.go (release 1.15). Rows T26-T29.
"""

from __future__ import annotations

from typing import Final

from apiserver.catalogue.apps.daemon_sets import TEMPLATE_GENERATION
from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common import workloads
from apiserver.catalogue.common.annotation_values import annotate, take_annotation
from apiserver.meta.field_errors import Errors
from apiserver.meta.vocabulary import Document
from apiserver.registry.served_resource import Subresource
from apiserver.registry.strategy import Strategy
from apiserver.registry.subresources import old_scale
from apiserver.schema.validation.checks import non_negative
from apiserver.schema.validation.documents import at

INT32_MAX: Final = (1 << 31) - 1
_INT64: Final = range(-(1 << 63), 1 << 63)
_INT64_DIGITS_MAX: Final = 20
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"


def old_strategy(v1: BuiltinType, *, selector_may_change: bool) -> Strategy:
    """Returns the rules of a version that is older than apps/v1."""
    strategy = v1.strategy._replace(orphans_by_default=True)
    if not selector_may_change:
        return strategy

    def validate(new: Document, old: Document | None) -> Errors:
        """Check an object with its selector as the old one, since it may change."""
        if old is not None:
            selector = {k: v for k, v in new["spec"].items() if k == "selector"}
            others = {k: v for k, v in old["spec"].items() if k != "selector"}
            old = {**old, "spec": others | selector}
        return strategy.validate_ratcheting(new, old)

    return strategy._replace(validate_ratcheting=validate)


def old_deployment_strategy(v1: BuiltinType) -> Strategy:
    """Returns the rules of Deployments in the versions that have `spec.rollbackTo`."""
    strategy = old_strategy(v1, selector_may_change=True)

    return strategy._replace(validate=validate_rollback)


def validate_rollback(document: Document) -> Errors:
    """Checks the revision of a rollback in a Deployment of apps/v1, with Kubernetes' field name."""
    revision = _int64(at(document, "metadata", "annotations", ROLLBACK_TO))
    return non_negative("spec.rollback.version", revision)


def with_old_scale(
    subresources: tuple[Subresource, ...], group: str, version: str
) -> tuple[Subresource, ...]:
    """Returns subresources with the version's scale instead of the common one."""
    scale = old_scale(workloads.SCALE_FIELDS, group, version)
    return tuple(scale if each.name == scale.name else each for each in subresources)


# ---- defaults


def labels_of_template(document: Document) -> None:
    """Sets selector and labels of an object to the labels of its pods."""
    labels = at(document, "spec", "template", "metadata", "labels")
    if not labels:
        return
    document["spec"].setdefault("selector", {"matchLabels": dict(labels)})
    if not document["metadata"].get("labels"):
        document["metadata"]["labels"] = dict(labels)


# ---- conversion


def deployment_to_v1(document: Document) -> None:
    rollback = (document.get("spec") or {}).pop("rollbackTo", None)
    if rollback is not None:
        annotate(document, ROLLBACK_TO, str(rollback.get("revision", 0)))


def deployment_from_v1(document: Document) -> None:
    revision = _take_number(document, ROLLBACK_TO)
    if revision is not None:
        document.setdefault("spec", {})["rollbackTo"] = {"revision": revision} if revision else {}


def daemon_set_to_v1(document: Document) -> None:
    generation = (document.get("spec") or {}).pop("templateGeneration", 0)
    if generation or at(document, "metadata", "annotations", TEMPLATE_GENERATION) is None:
        annotate(document, TEMPLATE_GENERATION, str(generation))


def daemon_set_from_v1(document: Document) -> None:
    if generation := _take_number(document, TEMPLATE_GENERATION):
        document.setdefault("spec", {})["templateGeneration"] = generation


def _take_number(document: Document, key: str) -> int | None:
    """Removes and returns the number in an annotation; None, without a removal, if it is none."""
    number = _int64(at(document, "metadata", "annotations", key))
    if number is not None:
        take_annotation(document, key)
    return number


def _int64(text: str | None) -> int | None:
    """Returns the number in a canonical text; None for any other text, also for `007`."""
    if text is None or len(text) > _INT64_DIGITS_MAX:
        return None
    try:
        number = int(text)
    except ValueError:
        return None
    return number if number in _INT64 and str(number) == text else None
