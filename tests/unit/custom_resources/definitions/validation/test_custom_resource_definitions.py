"""CustomResourceDefinitions, but for their schemas. Rows S01, S04, T14.

Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/{v1,validation} and
pkg/registry/customresourcedefinition (release 1.36).
"""

from __future__ import annotations

import base64
import copy
from functools import partial
from typing import Any, Final

import pytest

from apiserver.custom_resources.definitions.validation.custom_resource_definitions import DefinitionValidator
from apiserver.meta.brand import Brand
from apiserver.meta.field_errors import FieldError
from apiserver.schema.builtin import BuiltinSchemas
from tests.support.compatibility import DEFAULT_COMPATIBILITY
from tests.unit.catalogue.served_kinds import Changes, ServedKind

SCHEMAS: Final = BuiltinSchemas((1, 34))
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
SCHEMA: Final = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}},
}
V1: Final = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
V2: Final = {**V1, "name": "v2", "storage": False}
OTHER: Final = {"openAPIV3Schema": {"type": "object"}}
NAMES: Final = {"plural": "widgets", "kind": "Widget"}
ALL_NAMES: Final = {**NAMES, "singular": "widget", "listKind": "WidgetList"}
DEFINITION: Final = ServedKind(
    "customresourcedefinitions.apiextensions.k8s.io",
    {
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": NAMES, "versions": [V1]},
    },
)
ESTABLISHED: Final = {"status.conditions": [{"type": "Established", "status": "True"}]}
TWO: Final = {"spec.versions": [V1, V2]}


def texts(errors: list[FieldError]) -> list[str]:
    return list(map(str, errors))


def test_a_definition_is_completed() -> None:
    document, errors = DEFINITION.create()
    assert errors == []
    assert document["spec"]["names"] == ALL_NAMES
    assert document["spec"]["conversion"] == {"strategy": "None"}
    assert document["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


def test_clients_have_no_say_in_the_status() -> None:
    document, errors = DEFINITION.create({"status.storedVersions": ["v7"], **ESTABLISHED})
    assert errors == []
    assert document["status"]["storedVersions"] == ["v1"]
    assert document["status"]["conditions"] is None


def test_a_webhook_is_called_at_443() -> None:
    service = {"namespace": "n", "name": "s"}
    document, errors = DEFINITION.create({"spec.conversion": webhook(clientConfig={"service": service})})
    assert errors == []
    assert document["spec"]["conversion"]["webhook"]["clientConfig"]["service"] == {**service, "port": 443}


def webhook(**more: Any) -> dict[str, Any]:
    config = {"url": "https://example.com/convert"}
    return {
        "strategy": "Webhook",
        "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"], **more},
    }


def version(**more: Any) -> Changes:
    return {"spec.versions": [{**V1, **more}]}


def column(**more: Any) -> Changes:
    return version(
        additionalPrinterColumns=[{"name": "Color", "type": "string", "jsonPath": ".spec.color", **more}]
    )


def scale(**more: Any) -> Changes:
    paths = {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", **more}
    return version(subresources={"scale": paths})


_DNS: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_WARNING: Final = "spec.versions[0].deprecationWarning: Invalid value: "
_CONFIG: Final = "spec.conversion.webhookClientConfig"
_REVIEWS: Final = "spec.conversion.conversionReviewVersions"
_COLUMN: Final = "spec.additionalPrinterColumns[0]"
_NOT_STORED: Final = "status.storedVersions: Invalid value: null: must have at least one stored version"
INVALID: Final[dict[str, tuple[Changes, list[str]]]] = {
    "the name says what it defines": (
        {"metadata.name": "gadgets.example.com"},
        ['metadata.name: Invalid value: "gadgets.example.com": must be spec.names.plural+"."+spec.group'],
    ),
    "a group is a domain": (
        {"spec.group": "example", "metadata.name": "widgets.example"},
        ['spec.group: Invalid value: "example": should be a domain with at least one dot'],
    ),
    "a scope is required": ({"spec.scope": None}, ["spec.scope: Required value"]),
    "scopes are two": (
        {"spec.scope": "World"},
        ['spec.scope: Unsupported value: "World": supported values: "Cluster", "Namespaced"'],
    ),
    "a kind may have capitals, but no spaces": (
        {"spec.names.kind": "A b", "spec.names.singular": "ab"},
        [
            'spec.names.kind: Invalid value: "A b": may have mixed case, but should otherwise match: ' + _DNS,
            'spec.names.listKind: Invalid value: "A bList": may have mixed case, but should otherwise match: '
            + _DNS,
        ],
    ),
    "short names and categories are labels": (
        {"spec.names.shortNames": ["W"], "spec.names.categories": ["all", "A"]},
        [
            f'spec.names.shortNames[0]: Invalid value: "W": {_DNS}',
            f'spec.names.categories[1]: Invalid value: "A": {_DNS}',
        ],
    ),
    "a version without a name": (version(name=""), [f'spec.versions[0].name: Invalid value: "": {_DNS}']),
    "the name of another version": (
        {"spec.versions": [V1, {**V1, "name": "V2", "storage": False}]},
        [f'spec.versions[1].name: Invalid value: "V2": {_DNS}'],
    ),
    "a version is a label": (
        version(name="V1"),
        [f'{path}: Invalid value: "V1": {_DNS}' for path in ("spec.versions[0].name", "spec.version")],
    ),
    "each version has a schema": (
        version(schema=None),
        ["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"],
    ),
    "a warning is of deprecated versions": (
        version(deprecationWarning="old"),
        [f'{_WARNING}"old": can only be set for deprecated versions'],
    ),
    "a warning says something": (
        version(deprecated=True, deprecationWarning=""),
        [f'{_WARNING}"": must not be an empty string'],
    ),
    "a warning has 256 bytes at most": (
        version(deprecated=True, deprecationWarning="é" * 129),
        [f'{_WARNING}"{"é" * 129}": must be <= 256 characters long'],
    ),
    "a warning can be printed": (
        version(deprecated=True, deprecationWarning="é\n"),
        [
            (
                f'{_WARNING}"é\\n": must only contain printable UTF-8 characters; '
                "non-printable character found at index 2"
            )
        ],
    ),
    "only schemas preserve unknown fields": (
        {"spec.preserveUnknownFields": True},
        [
            (
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
                "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            )
        ],
    ),
    "a webhook has to be somewhere": (
        {"spec.conversion": webhook(clientConfig={})},
        [f"{_CONFIG}: Required value: exactly one of url or service is required"],
    ),
    "and to know a version of the review": (
        {"spec.conversion": webhook(conversionReviewVersions=["v7", "v7"])},
        [
            f'{_REVIEWS}[1]: Invalid value: "v7": duplicate version',
            f'{_REVIEWS}: Invalid value: ["v7","v7"]: must include at least one of v1, v1beta1',
        ],
    ),
    "a webhook is for nothing but webhooks": (
        {"spec.conversion": {**webhook(), "strategy": "None"}},
        [
            f"{_CONFIG}: Forbidden: should not be set when strategy is not set to Webhook",
            f"{_REVIEWS}: Forbidden: should not be set when strategy is not set to Webhook",
        ],
    ),
    "the amount asked for is in the spec": (
        scale(specReplicasPath=".status.n", labelSelectorPath=".metadata.x"),
        [
            (
                'spec.subresources.scale.specReplicasPath: Invalid value: ".status.n": '
                "should be a json path under .spec"
            ),
            (
                'spec.subresources.scale.labelSelectorPath: Invalid value: ".metadata.x": '
                "should be a json path under either .spec or .status"
            ),
        ],
    ),
    "columns have types": (
        column(type="text", format="x", jsonPath="spec"),
        [
            f'{_COLUMN}.type: Invalid value: "text": must be one of boolean,date,integer,number,string',
            (
                f'{_COLUMN}.format: Invalid value: "x": must be one of '
                "byte,date,date-time,double,float,int32,int64,password"
            ),
            f'{_COLUMN}.JSONPath: Invalid value: "spec": must be a simple json path starting with .',
        ],
    ),
    "columns show something": (
        column(name="", type="", jsonPath=""),
        [
            f"{_COLUMN}.name: Required value",
            f"{_COLUMN}.type: Required value: must be one of boolean,date,integer,number,string",
            f"{_COLUMN}.JSONPath: Required value",
        ],
    ),
    "errors in what differs between versions name the version": (
        {"spec.versions": [{**V1, "schema": {"openAPIV3Schema": {}}}, V2]},
        ["spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root"],
    ),
    "true is not 1": (
        {
            "spec.versions": [
                {**each, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": field}}}}
                for each, field in (
                    (V1, {"type": "boolean", "default": True}),
                    (V2, {"type": "boolean", "default": 1}),
                )
            ]
        },
        [
            (
                "spec.versions[1].schema.openAPIV3Schema.properties[a].default: Invalid value: "
                '"integer":  in body must be of type boolean: "integer"'
            )
        ],
    ),
}


@pytest.mark.parametrize(("changes", "errors"), INVALID.values(), ids=INVALID)
def test_invalid_definitions(changes: Changes, errors: list[str]) -> None:
    assert texts(DEFINITION.create(changes).errors) == errors


def test_exactly_one_version_is_for_storage() -> None:
    """The versions are shown with Kubernetes' own names; what they have in common is not with them."""
    without = texts(DEFINITION.create(version(storage=False)).errors)
    shown = (
        '[{"Name":"v1","Served":true,"Storage":false,"Deprecated":false,"DeprecationWarning":null,'
        '"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}]'
    )
    problem = "must have exactly one version marked as storage version"
    assert without == [f"spec.versions: Invalid value: {shown}: {problem}", _NOT_STORED]
    twice = texts(DEFINITION.create({"spec.versions": [V1, {**V1, "schema": OTHER}]}).errors)
    assert [error.rpartition(": ")[2] for error in twice] == ["must contain unique version names", problem]
    assert '"Schema":{"OpenAPIV3Schema":{"ID":"","Schema":"","Ref":null,' in twice[0]


# ---- selectable fields


def selecting(*paths: str) -> Changes:
    spec = {name: {"type": "string"} for name in "abcdefghi"} | {
        "list": {"type": "array", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
    }
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return version(schema={"openAPIV3Schema": schema}, selectableFields=[{"jsonPath": p} for p in paths])


_FIELD: Final = "spec.selectableFields[0].jsonPath"
SELECTING: Final[dict[str, tuple[list[str], list[str]]]] = {
    "fields and keys": ([".spec.a", ".spec.map.x"], []),
    "a path": ([""], [f"{_FIELD}: Required value"]),
    "that begins somewhere": (
        ["spec"],
        [f'{_FIELD}: Invalid value: "spec": is an invalid path: expected [ or . but got: spec'],
    ),
    "and leads somewhere": (
        [".spec.z"],
        [f'{_FIELD}: Invalid value: ".spec.z": is an invalid path: does not refer to a valid field'],
    ),
    "without brackets": (
        [".spec['a']"],
        [f"{_FIELD}: Invalid value: \".spec['a']\": is an invalid path: array notation is not allowed"],
    ),
    "to a scalar": (
        [".spec.list"],
        [
            (
                f'{_FIELD}: Invalid value: ".spec.list": must point to a field of type string, boolean or '
                "integer. Enum string fields and strings with formats are allowed."
            )
        ],
    ),
    "once": ([".spec.a", ".spec.a"], ['spec.selectableFields[1].jsonPath: Duplicate value: ".spec.a"']),
    "eight times": (
        [f".spec.{name}" for name in "abcdefghi"],
        ["spec.selectableFields: Too many: 9: must have at most 8 items"],
    ),
}


@pytest.mark.parametrize(("paths", "errors"), SELECTING.values(), ids=SELECTING)
def test_selectable_fields_lead_to(paths: list[str], errors: list[str]) -> None:
    assert texts(DEFINITION.create(selecting(*paths)).errors) == errors


# ---- updates


def test_a_new_storage_version_is_remembered() -> None:
    swapped = {"spec.versions": [{**V1, "storage": False}, {**V2, "storage": True}]}
    document, errors = DEFINITION.update(swapped, old=TWO)
    assert errors == []
    assert document["status"]["storedVersions"] == ["v1", "v2"]


def test_a_stored_version_stays() -> None:
    """Row S04."""
    errors = DEFINITION.update({"spec.versions": [{**V2, "storage": True}]}, old=TWO).errors
    assert texts(errors) == [
        (
            'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a '
            "storage version, and must remain in spec.versions until a storage migration ensures no data "
            "remains persisted in v1 and removes v1 from status.storedVersions"
        )
    ]


def test_the_status_endpoint_takes_any_stored_versions() -> None:
    document, errors = DEFINITION.update({"status.storedVersions": ["v0"]}, "status", old=TWO)
    assert errors == []
    assert document["status"]["storedVersions"] == ["v0"]


IMMUTABLE: Final[dict[str, tuple[Changes, list[str], list[str]]]] = {
    "group and plural": (
        {"spec.group": "other.io", "spec.names.plural": "others"},
        ["spec.group", "spec.names.plural"],
        ["spec.group", "spec.names.plural"],
    ),
    "scope and kind, once established": (
        {"spec.scope": "Cluster", "spec.names.kind": "Other"},
        [],
        ["spec.scope", "spec.names.kind"],
    ),
    "not the other names": ({"spec.names.singular": "w", "spec.names.shortNames": ["x"]}, [], []),
}


@pytest.mark.parametrize(("changes", "before", "after"), IMMUTABLE.values(), ids=IMMUTABLE)
def test_what_does_not_change(changes: Changes, before: list[str], after: list[str]) -> None:
    assert [error.field for error in DEFINITION.update(changes).errors] == before
    errors = DEFINITION.update(changes, old=ESTABLISHED).errors
    assert [(error.field, error.message.rpartition(": ")[2]) for error in errors] == [
        (field, "field is immutable") for field in after
    ]


def at_bundle(text: str) -> Changes:
    bundle = base64.b64encode(text.encode()).decode()
    return {
        "spec.conversion": webhook(clientConfig={"url": "https://example.com/convert", "caBundle": bundle})
    }


def test_a_bundle_must_be_valid_once_the_definition_is_in_use() -> None:
    broken = at_bundle("nonsense")
    assert DEFINITION.create(broken).errors == []
    assert DEFINITION.update(broken).errors == []
    assert texts(DEFINITION.update(broken, old=ESTABLISHED).errors) == [
        (
            f'{_CONFIG}.caBundle: Invalid value: "bm9uc2Vuc2U=": '
            "unable to load root certificates: unable to parse bytes as PEM block"
        )
    ]
    assert DEFINITION.update({"spec.scope": "Namespaced"}, old={**broken, **ESTABLISHED}).errors == []


def old_fault(field: dict[str, Any]) -> Changes:
    schema = {"type": "object", "properties": {"a": field}}
    return {"spec.versions.0.schema": {"openAPIV3Schema": schema}}


TOLERATED: Final = {
    "a set of what is not whole": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "object"},
    },
    "keys that may be missing": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
    },
    "a type that there is not": {"type": "bogus"},
}


@pytest.mark.parametrize("field", TOLERATED.values(), ids=TOLERATED)
def test_what_was_stored_before_it_was_forbidden_stays(field: dict[str, Any]) -> None:
    fault = old_fault(field)
    assert DEFINITION.update(fault).errors != []
    assert DEFINITION.update({"spec.names.shortNames": ["w"]}, old=fault).errors == []


# ---- groups of the project's own domains

ANNOTATION: Final = "api-approved.kubernetes.io"
APPROVALS: Final[dict[str, tuple[str | None, str]]] = {
    "nothing": (None, "Required value: protected groups must have"),
    "a word": ("yes", 'Invalid value: "yes": protected groups must have'),
    "a URL": ("https://example.com/1111", ""),
    "a URL without a host": ("https:///1111", 'Invalid value: "https:///1111": protected groups must have'),
    "a URL that is none": ("https://h:x/1", 'Invalid value: "https://h:x/1": protected groups must have'),
    "that there is none": ("unapproved, experimental", ""),
}


@pytest.mark.parametrize("group", ["k8s.io", "x.k8s.io", "x.kubernetes.io"])
@pytest.mark.parametrize(("annotation", "problem"), APPROVALS.values(), ids=APPROVALS)
def test_protected_groups_need(annotation: str | None, problem: str, group: str) -> None:
    annotations = {ANNOTATION: annotation} if annotation else None
    protected = {
        "spec.group": group,
        "metadata.name": f"widgets.{group}",
        "metadata.annotations": annotations,
    }
    errors = DEFINITION.create(protected).errors
    if not problem:
        assert errors == []
    else:
        (error,) = errors
        assert error.field == f"metadata.annotations[{ANNOTATION}]"
        assert error.message.startswith(problem)


def test_a_missing_approval_may_stay_missing() -> None:
    protected = {"spec.group": "x.k8s.io", "metadata.name": "widgets.x.k8s.io"}
    assert DEFINITION.update({"spec.names.shortNames": ["w"]}, old=protected).errors == []


def test_another_domain_protects_its_own_groups() -> None:
    brand = Brand(group_domain="acme.dev", vendor="acme")
    checks = DefinitionValidator(brand, partial(SCHEMAS.get, META), DEFAULT_COMPATIBILITY)
    document = DEFINITION.create().document
    document["metadata"]["name"], document["spec"]["group"] = "widgets.x.acme.dev", "x.acme.dev"
    assert [e.field for e in checks.validate_create(document)] == [
        "metadata.annotations[api-approved.acme.io]"
    ]
    assert [e.field for e in DEFINITION.create({"spec.group": "x.acme.dev"}).errors] == ["metadata.name"]


# ---- warnings, and those who look at rules

FORMATS: Final = {
    "a": {"type": "string", "format": "date-time"},
    "b": {"type": "integer", "format": "int64"},
    "c": {"type": "string", "format": "int64"},
    "d": {"type": "array", "items": {"type": "string", "format": "odd"}},
}


def test_unrecognized_formats_are_warned_of_once() -> None:
    warn = DEFINITION.resource.strategy.warn
    new = DEFINITION.create(
        {"spec.versions.0.schema.openAPIV3Schema": {"type": "object", "properties": FORMATS}}
    ).document
    assert sorted(warn(new, None)) == ['unrecognized format "int64"', 'unrecognized format "odd"']
    assert warn(new, new) == []


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    return DEFINITION.create({"spec.versions": list(versions)}).document


def with_schema(version: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    return {**version, "schema": {"openAPIV3Schema": schema}}


PATHS: Final = [f"spec.versions[{index}].schema.openAPIV3Schema" for index in range(2)]


STRATEGY: Final = DEFINITION.resource.strategy
X_RULES: Final = "x-kubernetes-validations"


def with_wrong_rules(errors: list[FieldError]) -> set[str]:
    """The paths of the schemas whose rules do not compile or are too dear."""
    return {
        error.field.partition(f".{X_RULES}[")[0]
        for error in errors
        if "undeclared reference" in error.message or "estimated rule cost" in error.message
    }


STRINGS: Final = {
    "type": "array",
    "maxItems": 1_000_000,
    "items": {"type": "string", "maxLength": 16},
    X_RULES: [{"rule": "self.all(x, x.contains('gpu'))"}],
}
# A rule may cost ten millions; this one costs eleven.
DEAR: Final = {"type": "object", "properties": {"l": STRINGS}}


def test_a_rule_may_cost_as_much_as_before_in_its_own_version() -> None:
    """Not as it was in another one."""
    old = definition(with_schema(V1, DEAR), with_schema({**V2, "name": "v0"}, {"type": "object"}))
    other = {**DEAR, "description": "of v2"}
    errors = STRATEGY.update.validate(definition(with_schema(V1, DEAR), with_schema(V2, other)), old)
    assert with_wrong_rules(errors) == {f"{PATHS[1]}.properties[l]"}
    assert with_wrong_rules(STRATEGY.validate_create(definition(with_schema(V1, DEAR)))) == {
        "spec.validation.openAPIV3Schema.properties[l]"
    }


BAD_PLACES: Final[dict[str, tuple[dict[str, Any], set[str] | None]]] = {
    "what does not belong to a type": (
        {"a": {"type": "object", "x-kubernetes-list-type": "set"}, "b": {"type": "string"}},
        {"", ".properties[a]"},
    ),
    "in values of values": (
        {"a": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "odd"}}}},
        {
            "",
            ".properties[a]",
            ".properties[a].additionalProperties",
            ".properties[a].additionalProperties.items",
        },
    ),
    "a rule's path": (
        {"a": {"type": "object", "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".z"}]}},
        {"", ".properties[a]"},
    ),
    "no structure": ({"a": {}}, None),
    "a default that does not fit": ({"a": {"type": "string", "default": 1}}, None),
}


def schemas_in(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """A schema and all in it, by path."""
    found = {path: schema}
    for name, field in schema.get("properties", {}).items():
        found |= schemas_in(field, f"{path}.properties[{name}]")
    for holder in ("additionalProperties", "items"):
        if holder in schema:
            found |= schemas_in(schema[holder], f"{path}.{holder}")
    return found


@pytest.mark.parametrize(("fields", "invalid_paths"), BAD_PLACES.values(), ids=BAD_PLACES)
def test_where_rules_are_looked_at_beside_other_errors(
    fields: dict[str, Any], invalid_paths: set[str] | None
) -> None:
    """Where the structure and the defaults are right, but not at or around what is wrong."""
    schema = copy.deepcopy({"type": "object", "properties": fields})
    schemas = schemas_in(schema)
    for each in schemas.values():
        each[X_RULES] = [*each.get(X_RULES, ()), {"rule": "undeclared"}]
    found = with_wrong_rules(STRATEGY.validate_create(definition(with_schema(V1, schema))))
    root = "spec.validation.openAPIV3Schema"
    assert found == (
        set() if invalid_paths is None else {f"{root}{path}" for path in schemas.keys() - invalid_paths}
    )
