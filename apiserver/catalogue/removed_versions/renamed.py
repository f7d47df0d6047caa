"""Versions whose fields have the same names and places in the versions that replaced them.

Later versions may have more fields; these are kept in the stored object, and clients of the old version
cannot write them. Rows T03, T06, T08, T12, T15-T17, T19, T22, T23 and T24.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import CurrentTypes, hub_of, other_version
from apiserver.meta.vocabulary import Document

# Group, version and resources.
_RENAMED: Final = (
    ("apiregistration.", "v1beta1", ("apiservices",)),
    ("authentication.", "v1beta1", ("selfsubjectreviews", "tokenreviews")),
    ("authentication.", "v1alpha1", ("selfsubjectreviews",)),
    ("authorization.", "v1beta1", ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
    ("coordination.", "v1beta1", ("leases",)),
    ("networking.", "v1alpha1", ("ipaddresses", "servicecidrs")),
    ("node.", "v1beta1", ("runtimeclasses",)),
    ("rbac.authorization.", "v1beta1", ("clusterrolebindings", "clusterroles", "rolebindings", "roles")),
    ("scheduling.", "v1beta1", ("priorityclasses",)),
    ("scheduling.", "v1alpha1", ("priorityclasses",)),
    (
        "storage.",
        "v1beta1",
        ("csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"),
    ),
    ("storage.", "v1alpha1", ("csistoragecapacities", "volumeattachments", "volumeattributesclasses")),
)
# What v1 calls `spec.groups` is `spec.group` in these of v1beta1.
_REVIEWS_WITH_GROUPS: Final = ("localsubjectaccessreviews", "subjectaccessreviews")


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    cron_jobs = current["batch", "cronjobs"]
    # Jobs outlive them by default. Source: pkg/registry/batch/cronjob/strategy.go (release 1.20).
    orphaning = cron_jobs.strategy._replace(orphans_by_default=True)
    # What v1 requires of new events, and refuses, is no error in v1beta1.
    # Source: pkg/apis/core/validation/events.go, ValidateEventCreate (release 1.24).
    events, rules_of_core = current["events.", "events"], current["", "events"].strategy
    reviews = (current["authorization.", each] for each in _REVIEWS_WITH_GROUPS)
    return (
        *(
            other_version(current[group, resource], version)
            for group, version, resources in _RENAMED
            for resource in resources
        ),
        *(other_version(cron_jobs, version, strategy=orphaning) for version in ("v1beta1", "v2alpha1")),
        other_version(events, "v1beta1", strategy=rules_of_core),
        *(other_version(each, "v1beta1", hub=hub_of(each, _to_groups, _to_group)) for each in reviews),
    )


def _renaming(old: str, new: str) -> Callable[[Document], None]:
    def rename(review: Document) -> None:
        spec = review.get("spec", {})
        if old in spec:
            spec[new] = spec.pop(old)

    return rename


_to_groups: Final = _renaming("group", "groups")
_to_group: Final = _renaming("groups", "group")
