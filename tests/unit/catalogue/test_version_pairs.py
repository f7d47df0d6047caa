"""Every version of a type can be told in every other one of it, and back, without loss. Rows S01, T31.

The pairs come from the table of releases, not from the modules that convert: whatever a release has served
beside another version, or has removed for one, is here, or among what is not implemented.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations, permutations
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from apiserver.meta.errors import Invalid
from apiserver.meta.releases.emulation import NEWEST_MINOR, OLDEST_MINOR
from apiserver.meta.releases.lifecycles import Lifecycle, known_lifecycles, lifecycle_of
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.registry.served_resource import ServedResource
from tests.support.schema_values import Amendment, SchemaValues
from tests.unit.catalogue.removed_versions.old_kinds import catalogue

LIVES: Final = tuple(each for each in known_lifecycles().values() if "/" not in each.resource)


@cache
def all_versions(minor: int) -> Mapping[tuple[str, str], ServedResource]:
    """All versions of all types that are implemented, with the fields that a release has in them."""
    return {(each.api_version, each.resource): each for each in catalogue(minor).all_versions()}


def of_its_last_release(life: Lifecycle) -> ServedResource:
    last = NEWEST_MINOR if life.removed is None else min(life.removed - 1, NEWEST_MINOR)
    return all_versions(last)[life.group_version, life.resource]


# Versions that were replaced by others with other fields, into which Kubernetes does not convert them.
ALONE: Final = frozenset({("scheduling.k8s.io/v1alpha1", "workloads")})


def pairs() -> dict[str, tuple[Lifecycle, Lifecycle]]:
    """Each version of a type beside each other one, both ways."""
    families: defaultdict[GroupResource, list[Lifecycle]] = defaultdict(list)
    for key, each in all_versions(OLDEST_MINOR).items():
        families[each.stored_group_resource].append(known_lifecycles()[key])
    return {
        f"{one.group_version}/{one.resource} in {other.group_version}": (one, other)
        for versions in families.values()
        for one, other in permutations(versions, 2)
        if not ALONE & {(one.group_version, one.resource), (other.group_version, other.resource)}
    }


PAIRS: Final = pairs()

# Versions that this server does not have, of types of which releases have had several.
NOT_IMPLEMENTED: Final = {
    # Those of 1.37 are types of their own, in its catalogue alone.
    "scheduling.k8s.io podgroups": ("v1alpha3", "v1beta1"),
    "scheduling.k8s.io workloads": ("v1alpha3", "v1beta1"),
}


def served_together() -> list[tuple[Lifecycle, Lifecycle]]:
    """The versions of one resource that a release has had together."""
    return [
        (one, other)
        for one, other in combinations(LIVES, 2)
        if (one.group, one.resource) == (other.group, other.resource)
        and any(one.is_in(minor) and other.is_in(minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1))
    ]


def removed_for_another() -> list[tuple[Lifecycle, Lifecycle]]:
    """The rows of the table of removed versions, each with all that replaces it."""
    return [
        (each, instead)
        for each in LIVES
        if each.removed is not None and each.removed > OLDEST_MINOR
        for replacement in each.replacements
        if (instead := lifecycle_of(*replacement)) is not None and instead.introduced <= NEWEST_MINOR
    ]


@pytest.mark.parametrize("found", [served_together, removed_for_another])
def test_no_pair_is_forgotten(found: Callable[[], list[tuple[Lifecycle, Lifecycle]]]) -> None:
    unknown = {
        (f"{group} {resource}", version)
        for text, versions in NOT_IMPLEMENTED.items()
        for group, resource in [text.split()]
        for version in versions
    }
    tested = set(PAIRS.values())
    missing = set()
    for one, other in found():
        assert ((one, other) in tested) is ((other, one) in tested)
        if (one, other) not in tested:
            absent = [
                (f"{each.group} {each.resource}", each.version)
                for each in (one, other)
                if (each.group_version, each.resource) not in all_versions(OLDEST_MINOR)
            ]
            assert absent, (one, other)
            missing.update(absent)
    assert missing <= unknown


# ---- what no release accepts otherwise, and what is something else in another version

Fields = Mapping[str, st.SearchStrategy[Any]]
QUANTITIES: Final = st.sampled_from(("0", "1", "100m"))


def subject(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """Kinds that there are: others have no group of their own. `*` is another subject in v1alpha1."""
    for field in ("apiGroup", "apiVersion"):
        document.pop(field, None)
    document["kind"] = draw(st.sampled_from(("User", "Group", "ServiceAccount")))
    document["name"] = draw(st.sampled_from(("a", "b")))


def metric(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """What its type says."""
    chosen = draw(st.sampled_from([each for each in fields if each != "type"]))
    document.clear()
    document.update({"type": chosen[0].upper() + chosen[1:], chosen: draw(fields[chosen])})


TARGETS: Final = {"Utilization": "averageUtilization", "Value": "value", "AverageValue": "averageValue"}
# In v2beta1 they are fields of the metric.
FLAT_TARGETS: Final = {
    "Utilization": "targetAverageUtilization",
    "Value": "targetValue",
    "AverageValue": "targetAverageValue",
}


def source(*kinds: str) -> Amendment:
    """A metric that has one of some kinds of targets."""

    def amend(draw: st.DrawFn, document: Document, fields: Fields) -> None:
        flat = [kind for kind in kinds if FLAT_TARGETS[kind] in fields]
        kind = draw(st.sampled_from(flat or kinds))
        wanted = draw(st.just(50) if kind == "Utilization" else QUANTITIES)
        for field in (*FLAT_TARGETS.values(), "averageValue"):
            document.pop(field, None)
        if flat:
            document[FLAT_TARGETS[kind]] = wanted
        else:
            document["target"] = {"type": kind, TARGETS[kind]: wanted}

    return amend


def current(always: str, *others: str) -> Amendment:
    """What a metric is now. always: the number that all have; others: those that they may have, too."""

    def amend(draw: st.DrawFn, document: Document, fields: Fields) -> None:
        if "current" in fields:
            known = {
                name: draw(QUANTITIES if name != "averageUtilization" else st.just(50)) for name in others
            }
            document["current"] = {always: draw(QUANTITIES), **(known if draw(st.booleans()) else {})}

    return amend


def autoscaler_spec(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """v1 has defaults that are set when it becomes another version."""
    document.setdefault("minReplicas", 1)
    if "targetCPUUtilizationPercentage" in fields:
        document.setdefault("targetCPUUtilizationPercentage", 50)


def autoscaler_status(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """v1 shows this one beside an annotation that has all of them."""
    document.pop("currentCPUUtilizationPercentage", None)


def backend(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    document.clear()
    port = draw(st.sampled_from((80, "http")))
    if draw(st.booleans()) and "resource" in fields:
        document["resource"] = {"apiGroup": "a.b", "kind": "Bucket", "name": "a"}
        if "servicePort" in fields:
            document["servicePort"] = 0  # It is always shown.
    elif "servicePort" in fields:
        document.update({"serviceName": "web", "servicePort": port})
    else:
        of_service = {"name": port} if isinstance(port, str) else {"number": port}
        document["service"] = {"name": "web", "port": of_service}


def binding_spec(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    document["validationActions"] = draw(st.sampled_from((["Deny"], ["Warn", "Audit"])))


COMMON: Final = ("subresources", "validation", "additionalPrinterColumns")


def definition_spec(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """In v1beta1 a version is named twice, and what is the same in all of them stands beside them."""
    if "version" not in fields:
        return
    versions = [{"name": name, "served": True, "storage": name == "v1"} for name in ("v1", "v2")]
    document.update({"version": "v1", "versions": versions})
    if draw(st.booleans()):
        for field in COMMON:
            document.pop(field, None)
        own = "additionalPrinterColumns"
        document["versions"][0][own] = [{"name": "A", "type": "string", "JSONPath": ".a"}]


def endpoint(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """A label tells the node in v1beta1, even if a field does, too."""
    if document.get("nodeName", "a") == "":
        document["nodeName"] = "a"
    if "topology" in fields and "nodeName" in document:
        topology = {**document.get("topology", {}), "kubernetes.io/hostname": document["nodeName"]}
        document["topology"] = topology


def device(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    if "basic" in fields:
        document["basic"] = draw(fields["basic"])


def slice_spec(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """Devices with names of their own: by these v1alpha3 knows whose policy of requests is which."""
    if devices := document.get("devices"):
        document["devices"] = [*{each["name"]: each for each in devices}.values()]


def device_request(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    if "exactly" not in fields and not document.get("deviceClassName"):
        document.clear()
        document.update(
            {"name": "a", "deviceClassName": "", "firstAvailable": draw(fields["firstAvailable"])}
        )


def certificate_request_spec(draw: st.DrawFn, document: Document, fields: Fields) -> None:
    """One that has a signing request, as in v1: that has no place for a key and a proof beside it."""
    for field in ("pkixPublicKey", "proofOfPossession"):
        document.pop(field, None)


AMENDMENTS: Final[Mapping[str, Amendment]] = {
    "ContainerResourceMetricSource": source("Utilization", "AverageValue"),
    "ContainerResourceMetricStatus": current("averageValue", "averageUtilization"),
    "CustomResourceDefinitionSpec": definition_spec,
    "Device": device,
    "DeviceRequest": device_request,
    "Endpoint": endpoint,
    "ExternalMetricSource": source("Value", "AverageValue"),
    "ExternalMetricStatus": current("value", "averageValue"),
    "HorizontalPodAutoscalerSpec": autoscaler_spec,
    "HorizontalPodAutoscalerStatus": autoscaler_status,
    "IngressBackend": backend,
    "MetricSpec": metric,
    "MetricStatus": metric,
    "PodCertificateRequestSpec": certificate_request_spec,
    "ObjectMetricSource": source("Value", "AverageValue"),
    "ObjectMetricStatus": current("value", "averageValue"),
    "PodsMetricSource": source("AverageValue"),
    "PodsMetricStatus": current("averageValue"),
    "ResourceMetricSource": source("Utilization", "AverageValue"),
    "ResourceMetricStatus": current("averageValue", "averageUtilization"),
    "ResourceSliceSpec": slice_spec,
    "Subject": subject,
    "ValidatingAdmissionPolicyBindingSpec": binding_spec,
}

VALUES: Final = SchemaValues(AMENDMENTS)

META: Final[st.SearchStrategy[Document]] = st.fixed_dictionaries(
    {"name": st.just("a")},
    optional={
        "annotations": st.just({"a": "b"}),
        "labels": st.just({"a": "b"}),
        "generation": st.just(2),
        "managedFields": st.just([{"manager": "a", "operation": "Update", "fieldsV1": {"f:spec": {}}}]),
    },
)
_NOT_DRAWN: Final = ("apiVersion", "kind", "metadata")


@st.composite
def objects(draw: st.DrawFn, resource: ServedResource) -> Document:
    """An object with any contents, and with its defaults."""
    contents = {
        name: draw(VALUES.of(field))
        for name, field in resource.schema().fields.items()
        if name not in _NOT_DRAWN and (name == "spec" or draw(st.booleans()))
    }
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": draw(META)}
    document = {**head, **contents}
    resource.check(document)
    return document


def converted(document: Document, one: ServedResource, other: ServedResource) -> Document:
    return one.codec.convert(copy.deepcopy(document), other.codec)


def loses_nothing(document: Document, one: Lifecycle, other: Lifecycle) -> bool:
    """Returns whether the other version can say it; then nothing may be lost in that version and back."""
    here, there = of_its_last_release(one), of_its_last_release(other)
    try:
        shown = converted(document, here, there)
        again = converted(shown, there, here)
    except Invalid:  # What cannot be said in a client's version has not come from a client.
        return False
    assert (shown["apiVersion"], shown["kind"]) == (there.api_version, there.kind)
    there.check(copy.deepcopy(shown))
    assert again == document
    return True


SLOW: Final = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@pytest.mark.parametrize(("one", "other"), PAIRS.values(), ids=PAIRS)
@settings(max_examples=5, suppress_health_check=SLOW)
@given(data=st.data())
def test_nothing_is_lost(one: Lifecycle, other: Lifecycle, data: st.DataObject) -> None:
    assume(loses_nothing(data.draw(objects(of_its_last_release(one))), one, other))


# How many objects of each version are converted into each other one, and back.
MANY: Final = 100
OTHERS: Final[Mapping[str, tuple[Lifecycle, Sequence[Lifecycle]]]] = {
    f"{one.group_version}/{one.resource}": (one, [other for first, other in PAIRS.values() if first is one])
    for one, _ in PAIRS.values()
}


@pytest.mark.slow
@pytest.mark.parametrize(("one", "others"), OTHERS.values(), ids=OTHERS)
def test_nothing_of_many_is_lost(one: Lifecycle, others: Sequence[Lifecycle]) -> None:
    """To draw an object takes longer than to convert it: each is converted into all other versions."""
    converted_into: Counter[Lifecycle] = Counter()

    @settings(max_examples=MANY, suppress_health_check=SLOW)
    @given(objects(of_its_last_release(one)))
    def require_nothing_lost(document: Document) -> None:
        able = [other for other in others if loses_nothing(document, one, other)]
        converted_into.update(able)
        assume(able == others)  # An object that one of them cannot say is no example.

    require_nothing_lost()
    assert {each: count for each, count in converted_into.items() if count < MANY} == {}
    assert converted_into.keys() == set(others)
