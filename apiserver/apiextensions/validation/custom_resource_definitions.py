"""CustomResourceDefinitions. Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/{v1,validation}
and pkg/registry/customresourcedefinition.

Kubernetes checks a form that it has for itself, in which what all versions have in common stands beside them:
a schema is `spec.validation` there if all versions have the same, else `spec.versions[0].schema`. Errors name
those paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from apiserver.apiextensions.approval import annotation, approval_of, is_protected
from apiserver.apiextensions.definition_conditions import ESTABLISHED, is_condition_true
from apiserver.apiextensions.validation.conversion import (
    has_known_review_version,
    has_valid_ca_bundle,
    validate_conversion,
)
from apiserver.apiextensions.validation.internal_types import (
    internal_fields,
    internal_schema,
    internal_version,
)
from apiserver.apiextensions.validation.names import validate_group, validate_names, validate_spec_names
from apiserver.apiextensions.validation.openapi_schemas import (
    ALL,
    SchemaRequirements,
    unrecognized_formats,
    validate_json_schema,
)
from apiserver.apiextensions.validation.paths import validate_column, validate_subresources
from apiserver.apiextensions.validation.schema_defaults import DefaultsValidator, EvaluateRules
from apiserver.apiextensions.validation.schema_tree import nodes, same, validate_extent
from apiserver.apiextensions.validation.selectable_fields import validate_selectable_fields
from apiserver.apiextensions.validation.structural_schemas import unsupported, validate_structural
from apiserver.apiextensions.validation.versions import (
    storage_version,
    validate_stored_versions,
    validate_version,
    versions_of,
)
from apiserver.brand import Brand
from apiserver.field_errors import forbidden, invalid, required
from apiserver.golang.quoting import go_quote
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.schema.custom.json_schema import Extensions
from apiserver.schema.structural import Schema
from apiserver.validation.checks import Errors, at, immutable, items, one_of, setting
from apiserver.vocabulary import Document

_PACKAGE: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCOPES: Final = ("Cluster", "Namespaced")
# With a status subresource, what is said of `status` must hold on its own: only these may stand at the root.
_BESIDE_STATUS: Final = (
    *("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum"),
    *("MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required"),
    *("Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"),
)
# What the versions have in common is beside them: field of a version, field of the spec.
_IN_COMMON: Final = (
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)


class CheckRules(Protocol):
    """Checks the rules (`x-kubernetes-validations`) of a structural schema with valid defaults.

    That is, that they compile, and what they may cost. old_schema: what the version had before; None if it is
    new. stored: what all versions had before. unclean: the paths of schemas with other errors in them, whose
    rules are not looked at.
    """

    def __call__(
        self,
        schema: Mapping[str, Any],
        *,
        path: str,
        old_schema: Mapping[str, Any] | None,
        stored: Sequence[Mapping[str, Any]],
        invalid_paths: frozenset[str],
    ) -> Errors: ...


class _Before(NamedTuple):
    """The schemas that a definition had: of one version, and of all."""

    schema: Document | None
    all_schemas: Sequence[Document]


# ---- what is set


def _complete(definition: Document) -> None:
    status = definition["status"]
    if not status.get("storedVersions"):
        status["storedVersions"] = storage_version(definition) or None


def _complete_spec(spec: Document) -> None:
    all_names = spec["names"]
    kind = all_names.get("kind", "")
    if kind and not all_names.get("singular"):
        all_names["singular"] = kind.lower()
    if kind and not all_names.get("listKind"):
        all_names["listKind"] = f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def _complete_conversion(conversion: Document) -> None:
    """A webhook of which nothing is said is none."""
    if "webhook" in conversion and not any(conversion["webhook"].values()):
        del conversion["webhook"]


DEFAULTS: Final[Mapping[str, Default]] = {
    f"{_PACKAGE}CustomResourceDefinition": _complete,
    f"{_PACKAGE}CustomResourceDefinitionSpec": _complete_spec,
    f"{_PACKAGE}CustomResourceConversion": _complete_conversion,
    f"{_PACKAGE}ServiceReference": setting(port=443),
}


def prepare_definition_create(document: Document) -> None:
    document["status"] = {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": storage_version(document) or None,
    }


def prepare_definition_update(new: Document, old: Document) -> None:
    """A version that becomes the one for storage is among those stored from now on."""
    keep_status(new, old)
    stored = at(new, "status", "storedVersions") or []
    if not set(storage_version(new)) <= set(stored):
        new["status"] = {**new.get("status", {}), "storedVersions": [*stored, *storage_version(new)]}


def _schemas(document: Document) -> list[Document]:
    return [schema for _, schema in _schemas_in_place(document)]


def _schemas_in_place(document: Document) -> list[tuple[str, Document]]:
    schemas = (at(version, "schema", "openAPIV3Schema") for version in versions_of(document))
    return [
        (f"spec.versions[{index}].schema.openAPIV3Schema", schema)
        for index, schema in enumerate(schemas)
        if schema is not None
    ]


# ---- what is checked


@dataclass(frozen=True, slots=True)
class _Requirements:
    """What is demanded of a definition; less where it was stored before it was demanded.

    structure: schemas are structural even if unknown fields are kept.
    schemas: every version has one, not only those that are served.
    """

    of_schemas: SchemaRequirements = ALL
    structure: bool = True
    schemas: bool = True
    known_review_version: bool = True
    valid_ca_bundle: bool = False


class DefinitionValidator:
    """The checks of definitions in a deployment."""

    def __init__(
        self,
        brand: Brand,
        meta: Callable[[], Schema],
        check_rules: CheckRules,
        evaluate_rules: EvaluateRules,
    ) -> None:
        """meta: the schema of ObjectMeta."""
        self._brand = brand
        self._extensions = Extensions(brand.vendor)
        self._check_rules = check_rules
        self._defaults = DefaultsValidator(self._extensions, meta, evaluate_rules)

    def validate_create(self, document: Document) -> Errors:
        name = document["metadata"].get("name", "")
        spec = document.get("spec", {})
        errors: Errors = []
        if name and name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
            errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
        errors += self._spec(document, None, _Requirements())
        return errors + self._rest(document, None)

    def validate_update(self, new: Document, old: Document) -> Errors:
        demands = _Requirements(
            known_review_version=has_known_review_version(old),
            valid_ca_bundle=is_condition_true(old, ESTABLISHED) and has_valid_ca_bundle(old),
        )
        errors = self._spec(new, old, demands)
        if errors and not validate_extent(_schemas_in_place(old)):
            fewer = self._met_by(old, demands)
            if fewer != demands:
                errors = self._spec(new, old, fewer)
        spec, old_spec = new.get("spec", {}), old.get("spec", {})
        if is_condition_true(old, ESTABLISHED):
            errors += immutable("spec.scope", spec.get("scope"), old_spec.get("scope"))
            kind, old_kind = at(spec, "names", "kind"), at(old_spec, "names", "kind")
            errors += immutable("spec.names.kind", kind, old_kind)
        errors += immutable("spec.group", spec.get("group"), old_spec.get("group"))
        plural, old_plural = at(spec, "names", "plural"), at(old_spec, "names", "plural")
        errors += immutable("spec.names.plural", plural, old_plural)
        return errors + self._rest(new, old)

    def validate_status_update(self, new: Document, old: Document) -> Errors:
        return validate_names("status.acceptedNames", at(new, "status", "acceptedNames") or {})

    def warn(self, new: Document, old: Document | None) -> list[str]:
        before = unrecognized_formats(_schemas(old)) if old is not None else []
        found = unrecognized_formats(_schemas(new))
        return [f"unrecognized format {go_quote(each)}" for each in found if each not in before]

    def _met_by(self, old: Document, demands: _Requirements) -> _Requirements:
        schemas, names = _schemas(old), self._extensions
        return replace(
            demands,
            of_schemas=SchemaRequirements.met_by(schemas, names),
            structure=not any(
                unsupported(schema, names) or validate_structural("", schema, names) for schema in schemas
            ),
            schemas=len(schemas) == len(versions_of(old)),
        )

    # ---- beside the spec

    def _rest(self, new: Document, old: Document | None) -> Errors:
        errors = validate_names("status.acceptedNames", at(new, "status", "acceptedNames") or {})
        errors += validate_stored_versions("status.storedVersions", new)
        errors += self._api_approval(new, old)
        if at(new, "spec", "preserveUnknownFields") and not at(old or {}, "spec", "preserveUnknownFields"):
            text = (
                f"cannot set to true, set {self._extensions.preserve_unknown_fields} to true "
                "in spec.versions[*].schema instead"
            )
            errors.append(invalid("spec.preserveUnknownFields", True, text))
        return errors

    def _api_approval(self, new: Document, old: Document | None) -> Errors:
        """What is wrong with the approval, unless the same was before."""
        if not is_protected(at(new, "spec", "group") or "", self._brand):
            return []
        found = approval_of(new, self._brand)
        if found.may_be_created or (old is not None and found.text == self._approval_problem(old)):
            return []
        path = f"metadata.annotations[{annotation(self._brand)}]"
        return [invalid(path, found.said, found.text) if found.said else required(path, found.text)]

    def _approval_problem(self, old: Document) -> str:
        found = approval_of(old, self._brand)
        return "" if found.may_be_created else found.text

    # ---- the spec

    def _spec(self, document: Document, old: Document | None, demands: _Requirements) -> Errors:
        spec = _in_common(document.get("spec", {}))
        versions: list[Document] = spec["versions"]
        keeps_unknown = spec.get("preserveUnknownFields", False)
        errors = validate_group(spec.get("group", ""))
        errors += one_of("spec.scope", spec.get("scope"), _SCOPES, required_text="")
        errors += _missing_schemas(spec, demands)
        beyond_all = validate_extent(_schemas_in_place(document))
        schemas = _schemas(document) if not beyond_all else []
        errors += beyond_all
        has_defaults = any("default" in node for schema in schemas for node in nodes(schema))
        if has_defaults and keeps_unknown:
            text = "must be false in order to use defaults in the schema"
            errors.append(invalid("spec.preserveUnknownFields", True, text))
        if not keeps_unknown or has_defaults or self._has_extensions(schemas):
            demands = replace(demands, structure=True)
        old_schemas = {
            version.get("name", ""): schema
            for version in versions_of(old or {})
            if (schema := at(version, "schema", "openAPIV3Schema")) is not None
        }

        def before(version: str) -> _Before:
            return _Before(old_schemas.get(version), tuple(old_schemas.values()))

        for index, version in enumerate(versions):
            path, name = f"spec.versions[{index}]", version.get("name", "")
            errors += validate_version(path, version)
            errors += self._parts(
                path,
                version,
                version.get("schema"),
                schema_path=f"{path}.schema",
                looks_into_schema=not beyond_all,
                has_status="status" in (spec.get("subresources") or version.get("subresources") or {}),
                before=before(name),
                demands=demands,
            )
        errors += self._version_set(versions)
        errors += validate_spec_names(spec["names"])
        errors += self._parts(
            "spec",
            spec,
            spec.get("validation"),
            schema_path="spec.validation",
            looks_into_schema=not beyond_all,
            has_status=any("status" in (each.get("subresources") or {}) for each in (spec, *versions)),
            before=before(versions[0].get("name", "") if versions else ""),
            demands=demands,
        )
        conversion = spec.get("conversion") or {}
        if keeps_unknown and conversion.get("strategy", "None") != "None":
            text = "must be None if spec.preserveUnknownFields is true"
            errors.append(invalid("spec.conversion.strategy", conversion["strategy"], text))
        return errors + validate_conversion(
            "spec.conversion",
            conversion,
            needs_known_review_version=demands.known_review_version,
            checks_ca_bundle=demands.valid_ca_bundle,
        )

    def _has_extensions(self, schemas: Sequence[Document]) -> bool:
        extensions = self._extensions
        telling = {
            extensions.embedded_resource,
            extensions.preserve_unknown_fields,
            extensions.int_or_string,
            extensions.list_map_keys,
            extensions.list_type,
            extensions.validations,
        }
        return any(not telling.isdisjoint(node) for schema in schemas for node in nodes(schema))

    def _version_set(self, versions: Sequence[Document]) -> Errors:
        problems = []
        if len({version.get("name", "") for version in versions}) < len(versions):
            problems.append("must contain unique version names")
        if sum(bool(version.get("storage")) for version in versions) != 1:
            problems.append("must have exactly one version marked as storage version")
        if not problems:
            return []
        shown = [internal_version(version, self._extensions) for version in versions]
        return [invalid("spec.versions", shown, problem) for problem in problems]

    def _parts(
        self,
        path: str,
        holder: Document,
        validation: Document | None,
        *,
        schema_path: str,
        looks_into_schema: bool,
        has_status: bool,
        before: _Before,
        demands: _Requirements,
    ) -> Errors:
        """What a version has, or all versions together."""
        errors: Errors = []
        schema = validation.get("openAPIV3Schema") if validation is not None else None
        if schema is not None and looks_into_schema:
            where = f"{schema_path}.openAPIV3Schema"
            errors += self._schema(where, schema, before, has_status=has_status, demands=demands)
        errors += validate_subresources(f"{path}.subresources", holder.get("subresources") or {})
        for where, column in items(holder, "additionalPrinterColumns", path):
            errors += validate_column(where, column)
        if fields := holder.get("selectableFields"):
            where = f"{path}.selectableFields"
            if schema is None:
                # So Kubernetes says, in one case the contrary of what it means.
                is_common = path == "spec"
                what = "validations.schema is" if is_common else "version.schema.openAPIV3Schema is not"
                text = f"selectableFields may only be set when {what} included"
                errors.append(invalid(where, "", text))
            elif looks_into_schema and (problem := unsupported(schema, self._extensions)):
                errors.append(invalid(f"{path}.schema.openAPIV3Schema", "", problem))
            elif looks_into_schema:
                errors += validate_selectable_fields(where, fields, schema)
        return errors

    def _schema(
        self,
        path: str,
        schema: Document,
        before: _Before,
        *,
        has_status: bool,
        demands: _Requirements,
    ) -> Errors:
        extensions = self._extensions
        errors = self._beside_status(path, schema) if has_status else []
        if schema.get("nullable"):
            errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
        problem, may_have_rules = unsupported(schema, extensions), False
        if demands.structure and not problem:
            found = validate_structural(path, schema, extensions)
            found = found or self._defaults.validate(path, schema)
            errors += found
            may_have_rules = not found
        json_schema = validate_json_schema(
            path, schema, extensions, demands.of_schemas, is_supported=not problem
        )
        errors += json_schema.errors
        if problem and demands.structure and not errors:
            errors.append(invalid(path, "", problem))
        if may_have_rules:
            errors += self._check_rules(
                schema,
                path=path,
                old_schema=before.schema,
                stored=before.all_schemas,
                invalid_paths=json_schema.invalid_paths,
            )
        return errors

    def _beside_status(self, path: str, schema: Document) -> Errors:
        for field, name in internal_fields(self._extensions):
            if field not in schema:
                continue
            if field == "type" and schema["type"] != "object":
                text = (
                    'only "object" is allowed as the type at the root of the schema '
                    "if the status subresource is enabled"
                )
                return [invalid(f"{path}.type", schema["type"], text)]
            if name not in _BESIDE_STATUS:
                text = (
                    f"only [{' '.join(_BESIDE_STATUS)}] fields are allowed at the root of the schema "
                    "if the status subresource is enabled"
                )
                return [invalid(path, internal_schema(schema, self._extensions), text)]
        return []


def _in_common(spec: Document) -> Document:
    """The spec with what all versions have in common beside them."""
    versions = [dict(version) for version in spec.get("versions") or ()]
    spec = {**spec, "versions": versions, "names": spec.get("names", {})}
    if not versions:
        return spec
    for field, common in _IN_COMMON:
        first = versions[0].get(field)
        if field == "selectableFields" and "validation" not in spec:
            continue  # they are looked up in the schema, so they stay with it
        if all(same(version.get(field), first) for version in versions):
            spec[common] = first
            for version in versions:
                version.pop(field, None)
    return spec


def _missing_schemas(spec: Document, demands: _Requirements) -> Errors:
    if at(spec, "validation", "openAPIV3Schema") is not None:
        return []
    errors: Errors = []
    for index, version in enumerate(spec["versions"]):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if at(version, "schema", "openAPIV3Schema") is not None:
            continue
        if demands.schemas:
            errors.append(required(path, "schemas are required"))
        elif version.get("served") and not spec.get("preserveUnknownFields"):
            errors.append(required(path, "because otherwise all fields are pruned"))
    return errors
