"""Events of events.k8s.io/v1beta1: in the form of v1, with the rules of the core group.

What v1 requires of new events, and refuses, is no error here. Source: pkg/apis/core/validation/events.go,
ValidateEventCreate (release 1.24). Row T08.
"""

from __future__ import annotations

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.common.other_versions import other_version
from apiserver.catalogue.removed_versions.current_types import CurrentTypes


def types(current: CurrentTypes) -> tuple[BuiltinType, ...]:
    v1, core = current.find("events.", "events"), current.find("", "events")
    return (other_version(v1, "v1beta1", strategy=core.strategy),)
