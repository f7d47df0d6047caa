"""The versions of built-in types that releases up to 1.34 had, and that later ones removed.

Objects may still be stored in them, and a server that emulates such a release serves them. Each is declared
like any other type, and converted to its hub, the version of the rules.
The hub is the version that replaced it, the *current* one: rules, columns and selectable fields are the
hub's; this package declares differences: fields (`schema/removed_definitions.json`), defaults, required
fields, and allowed changes.

Modules have the names of the groups. Besides these, `renamed` has versions of several groups, and
types that no version replaced have separate modules, as `pod_presets`.

A server that serves none of these versions imports none of these modules until it reads an object that is
stored in one.

Source: staging/src/k8s.io/api and pkg/apis/*/VERSION (conversion.go, defaults.go) of the releases that had
them; rows T01-T30.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apiserver.catalogue.builtin_type import BuiltinType
from apiserver.catalogue.removed_versions import (
    admissionregistration,
    apiextensions,
    apps,
    audit_sinks,
    autoscaling,
    certificates,
    cluster_cidrs,
    coordination,
    discovery,
    extensions,
    flowcontrol,
    networking,
    node,
    pod_presets,
    policy,
    rbac,
    renamed,
    resource,
    storagemigration,
)
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.meta.brand import Brand
from apiserver.schema.structural import Schema


def types(
    brand: Brand,
    schema_of: Callable[[str], Schema],
    current: Iterable[BuiltinType],
    compatibility: CompatibilityVersion,
) -> tuple[BuiltinType, ...]:
    """Returns all removed versions.

    schema_of: returns the built-in schema of a definition. current: the types that replaced them.
    compatibility: the version that limits new expressions.
    """
    there: dict[tuple[str, str], BuiltinType] = {}
    for each in current:
        there.setdefault((each.group, each.resource), each)
    return (
        *renamed.types(there),
        *admissionregistration.types(schema_of, there, compatibility),
        *apiextensions.types(brand, schema_of, there, compatibility),
        *apps.types(there),
        audit_sinks.BUILTIN_TYPE,
        *autoscaling.types(there),
        *certificates.types(there),
        cluster_cidrs.BUILTIN_TYPE,
        *coordination.types(there),
        *discovery.types(there),
        *extensions.types(there),
        *flowcontrol.types(brand, there),
        *networking.types(there),
        *node.types(there),
        pod_presets.BUILTIN_TYPE,
        *policy.types(there),
        *rbac.types(brand, there),
        *resource.types(brand, there),
        *storagemigration.types(there),
    )
