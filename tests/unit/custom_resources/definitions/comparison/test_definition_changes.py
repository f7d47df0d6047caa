"""Whether changes of a definition beside its schemas are breaking."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from apiserver.catalogue.offline_definitions import DefinitionChecker, NotADefinition
from apiserver.meta.releases.emulation import DEFAULT_RELEASE
from apiserver.schema.builtin import BuiltinSchemas
from tests.support.definitions import SPEC, definition, version

SCHEMAS: Final = BuiltinSchemas(DEFAULT_RELEASE.version)
Definition = dict[str, Any]
SERVICE: Final = {"name": "a", "namespace": "b"}
WEBHOOK: Final = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"service": SERVICE}, "conversionReviewVersions": ["v1"]},
}
SCALE: Final = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
NO_STATUS: Final = {"type": "object", "properties": {"spec": SPEC["properties"]["spec"]}}


def old() -> Definition:
    """A definition with two versions, of which v1 is stored."""
    more: dict[str, Any] = {
        "subresources": {"status": {}, "scale": SCALE},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        "selectableFields": [{"jsonPath": ".spec.a"}],
    }
    document = definition(
        "shop.example.com",
        version("v1", **more),
        version("v1beta1", schema={**SPEC, "description": "beta"}, storage=False, **more),
        names={"shortNames": ["w"], "categories": ["all"]},
    )
    copied: Definition = json.loads(json.dumps(document))  # Nothing in it is there twice.
    return copied


def set_at(*steps: Any, to: Any) -> Callable[[Definition], None]:
    def change(document: Definition) -> None:
        node: Any = document
        for step in steps[:-1]:
            node = node[step]
        node[steps[-1]] = to

    return change


def without(*steps: Any) -> Callable[[Definition], None]:
    def change(document: Definition) -> None:
        node: Any = document
        for step in steps[:-1]:
            node = node[step]
        del node[steps[-1]]

    return change


def swap_storage(document: Definition) -> None:
    for each in document["spec"]["versions"]:
        each["storage"] = not each["storage"]


def both(*changes: Callable[[Definition], None]) -> Callable[[Definition], None]:
    def change(document: Definition) -> None:
        for each in changes:
            each(document)

    return change


def add(*versions: Definition) -> Callable[[Definition], None]:
    return lambda document: document["spec"]["versions"].extend(versions)


SPEC_OF_V1: Final = "spec.versions[0].schema.openAPIV3Schema.properties[spec]"
V1: Final = ("spec", "versions", 0)
BETA: Final = ("spec", "versions", 1)
NARROW: Final = {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}
ONLY_A: Final = {"type": "object", "properties": {"a": {"type": "string"}}}
# How the new definition differs, and the changes: breaking ones begin with `!`.
CHANGES: Final[Mapping[str, tuple[Callable[[Definition], None], list[str]]]] = {
    "the group": (set_at("spec", "group", to="x.example.com"), ["!GroupChanged spec.group"]),
    "the scope": (set_at("spec", "scope", to="Cluster"), ["!ScopeChanged spec.scope"]),
    "the kind": (
        set_at("spec", "names", "kind", to="Thing"),
        ["!KindChanged spec.names.kind", "!ListKindChanged spec.names.listKind"],
    ),
    "the plural": (set_at("spec", "names", "plural", to="things"), ["!PluralChanged spec.names.plural"]),
    "the singular": (
        set_at("spec", "names", "singular", to="thing"),
        ["!SingularChanged spec.names.singular"],
    ),
    "the kind of lists": (
        set_at("spec", "names", "listKind", to="Many"),
        ["!ListKindChanged spec.names.listKind"],
    ),
    "another short name": (
        set_at("spec", "names", "shortNames", to=["x"]),
        ["!ShortNameRemoved spec.names.shortNames", "ShortNameAdded spec.names.shortNames"],
    ),
    "another category": (
        set_at("spec", "names", "categories", to=["x"]),
        ["CategoryRemoved spec.names.categories", "CategoryAdded spec.names.categories"],
    ),
    "a served version is removed": (without(*BETA), ["!VersionRemoved spec.versions[v1beta1]"]),
    "the stored version is removed": (
        both(swap_storage, without(*V1)),
        ["StorageVersionChanged spec.versions[v1beta1]", "!VersionRemoved spec.versions[v1]"],
    ),
    "a version is not served": (
        set_at(*BETA, "served", to=False),
        ["!VersionNotServed spec.versions[v1beta1].served"],
    ),
    "a version is deprecated": (
        set_at(*BETA, "deprecated", to=True),
        ["VersionDeprecated spec.versions[v1beta1].deprecated"],
    ),
    "another version is stored": (swap_storage, ["StorageVersionChanged spec.versions[v1beta1]"]),
    "a version is added": (
        add(version("v2", schema={**SPEC, "description": "new"}, storage=False)),
        ["VersionAdded spec.versions[v2]"],
    ),
    "a version without fields of the stored one is added": (
        add(version("v2", schema=NARROW, storage=False)),
        [
            *("VersionAdded spec.versions[v2]", "!FieldRemoved v2 spec.a"),
            *("!FieldRemoved v2 spec.n", "!FieldRemoved v2 status"),
        ],
    ),
    "such a version is added, but not served": (
        add({**version("v2", schema=NARROW, storage=False), "served": False}),
        ["VersionAdded spec.versions[v2]"],
    ),
    "a version without fields of another one is stored": (
        both(swap_storage, set_at(*BETA, "schema", "openAPIV3Schema", "properties", "spec", to=ONLY_A)),
        [
            *("StorageVersionChanged spec.versions[v1beta1]", "!FieldRemoved v1beta1 spec.n"),
            "!FieldRemoved v1 spec.n",
        ],
    ),
    "an added version without fields of another one is stored, but not served": (
        both(
            set_at(*V1, "storage", to=False),
            without(*BETA),
            add({**version("v2", schema=NARROW), "served": False}),
        ),
        [
            *("StorageVersionChanged spec.versions[v2]", "!VersionRemoved spec.versions[v1beta1]"),
            *("VersionAdded spec.versions[v2]", "!FieldRemoved v1 spec.a"),
            *("!FieldRemoved v1 spec.n", "!FieldRemoved v1 status"),
        ],
    ),
    "such a version is stored, and a webhook converts": (
        both(
            set_at("spec", "conversion", to=WEBHOOK),
            set_at(*V1, "storage", to=False),
            add(version("v2", schema=NARROW)),
        ),
        [
            "StorageVersionChanged spec.versions[v2]",
            "ConversionChanged spec.conversion.strategy",
            "VersionAdded spec.versions[v2]",
        ],
    ),
    "the scale has a selector": (
        set_at(*V1, "subresources", "scale", to={**SCALE, "labelSelectorPath": ".status.selector"}),
        ["ScaleChanged spec.versions[v1].subresources.scale.labelSelectorPath"],
    ),
    "the status subresource is removed": (
        without(*V1, "subresources", "status"),
        ["!SubresourceRemoved spec.versions[v1].subresources.status"],
    ),
    "the scale subresource is removed": (
        without(*V1, "subresources", "scale"),
        ["!SubresourceRemoved spec.versions[v1].subresources.scale"],
    ),
    "the scale has another field": (
        set_at(*V1, "subresources", "scale", "specReplicasPath", to=".spec.m"),
        ["!ScaleChanged spec.versions[v1].subresources.scale.specReplicasPath"],
    ),
    "a selectable field is removed": (
        without(*V1, "selectableFields"),
        ["!SelectableFieldRemoved spec.versions[v1].selectableFields"],
    ),
    "a selectable field is added": (
        set_at(*V1, "selectableFields", to=[{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.n"}]),
        ["SelectableFieldAdded spec.versions[v1].selectableFields"],
    ),
    "other columns": (
        without(*V1, "additionalPrinterColumns"),
        ["ColumnsChanged spec.versions[v1].additionalPrinterColumns"],
    ),
    "only the text of a column": (
        set_at(*V1, "additionalPrinterColumns", 0, "description", to="How many."),
        [],
    ),
    "a webhook converts": (
        set_at("spec", "conversion", to=WEBHOOK),
        ["ConversionChanged spec.conversion.strategy"],
    ),
    "nothing": (lambda document: None, []),
    "a rule that does not compile": (
        set_at(
            *(*V1, "schema", "openAPIV3Schema", "properties", "spec"),
            to={**SPEC["properties"]["spec"], "x-kubernetes-validations": [{"rule": "bad"}]},
        ),
        [
            "!RuleAdded v1 spec",
            f"!UpdateRefused {SPEC_OF_V1}.x-kubernetes-validations[0].rule",
        ],
    ),
}


def changes(before: Definition, after: Definition) -> list[str]:
    found = DefinitionChecker(SCHEMAS, DEFAULT_RELEASE).compare(before, after)
    return [
        f"{'!' * change.is_breaking}{change.kind} {' '.join(filter(None, (change.version, change.path)))}"
        for change in found
    ]


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_what_is_breaking(change: Callable[[Definition], None], expected: list[str]) -> None:
    before, after = old(), old()
    change(after)
    assert changes(before, after) == expected
    assert before == old(), "the definitions stay as they are"


def test_the_way_back() -> None:
    """Some changes break in one direction only."""
    for change, expected in {
        without(*V1, "subresources", "status"): ["!SubresourceAdded spec.versions[v1].subresources.status"],
        without(*V1, "subresources", "scale"): ["SubresourceAdded spec.versions[v1].subresources.scale"],
        set_at("spec", "conversion", to=WEBHOOK): ["!ConversionChanged spec.conversion.strategy"],
        set_at(*BETA, "served", to=False): ["VersionServed spec.versions[v1beta1].served"],
        set_at(*BETA, "deprecated", to=True): [
            "VersionNotDeprecated spec.versions[v1beta1].deprecated",
        ],
        set_at(*V1, "subresources", "scale", to={**SCALE, "labelSelectorPath": ".status.selector"}): [
            "!ScaleChanged spec.versions[v1].subresources.scale.labelSelectorPath",
        ],
    }.items():
        before, after = old(), old()
        change(before)
        assert changes(before, after) == expected


def test_a_status_subresource_of_objects_without_status() -> None:
    before = definition("shop.example.com", version(schema=NO_STATUS))
    after = definition("shop.example.com", version(schema=NO_STATUS, subresources={"status": {}}))
    assert changes(before, after) == ["SubresourceAdded spec.versions[v1].subresources.status"]


def test_a_status_subresource_of_objects_with_any_fields() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    before = definition("shop.example.com", version(schema=schema))
    after = definition("shop.example.com", version(schema=schema, subresources={"status": {}}))
    assert changes(before, after) == ["!SubresourceAdded spec.versions[v1].subresources.status"]


def test_another_deprecation_warning() -> None:
    before, after = (
        definition("shop.example.com", version(deprecated=True, deprecationWarning=text))
        for text in ("use v2", "use v3")
    )
    assert changes(before, after) == [
        "DeprecationWarningChanged spec.versions[v1].deprecationWarning",
    ]


def test_a_version_that_becomes_served_lacks_fields() -> None:
    before, after = (
        definition(
            "shop.example.com",
            version(schema=NO_STATUS),
            {**version("v2", schema=NARROW, storage=False), "served": is_served},
        )
        for is_served in (False, True)
    )
    assert changes(before, after) == [
        *("VersionServed spec.versions[v2].served", "!FieldRemoved v2 spec.a", "!FieldRemoved v2 spec.n"),
    ]


def test_versions_that_nobody_uses_may_change() -> None:
    before, after = (
        definition(
            "shop.example.com", version(), {**version("v2", schema=schema, storage=False), "served": False}
        )
        for schema in (SPEC, NARROW)
    )
    assert changes(before, after) == []
    before["status"] = {"storedVersions": ["v1", "v2"]}
    assert "!FieldRemoved v2 spec.a" in changes(before, after)


def test_the_status_names_the_versions_of_stored_objects() -> None:
    before, after = old(), old()
    del after["spec"]["versions"][1]
    before["status"] = {"storedVersions": ["v1", "v1beta1"]}
    found = DefinitionChecker(SCHEMAS, DEFAULT_RELEASE).compare(before, after)
    assert [change.kind for change in found] == ["VersionRemoved"]
    assert "status.storedVersions" in found[0].message


def test_definitions_that_keep_unknown_fields() -> None:
    """Only those that were written as v1beta1 do, and are read from a server."""
    before, after = old(), old()
    before["spec"]["preserveUnknownFields"] = True
    assert changes(before, after) == ["!PreserveUnknownFieldsRemoved spec.preserveUnknownFields"]


def test_what_is_no_definition() -> None:
    broken = old()
    broken["spec"]["versions"] = "v1"
    with pytest.raises(NotADefinition, match="cannot unmarshal string"):
        changes(old(), broken)
