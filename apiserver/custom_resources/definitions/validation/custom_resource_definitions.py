"""Validates CustomResourceDefinitions.

Kubernetes validates its internal version of a definition, in which fields that are the same in all versions
are outside of the versions: a schema is at `spec.validation` there if all versions have the same one,
otherwise at `spec.versions[0].schema`. Errors name those paths.
Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from apiserver.cel.compatibility_version import CompatibilityVersion, ExpressionVersions
from apiserver.custom_resources.definitions import versions_of
from apiserver.custom_resources.definitions.approval import annotation_key, approval_of, is_protected_group
from apiserver.custom_resources.definitions.conditions import ESTABLISHED
from apiserver.custom_resources.definitions.validation.conversion import (
    has_known_review_version,
    has_valid_ca_bundle,
    validate_conversion,
)
from apiserver.custom_resources.definitions.validation.cost_bounds import OverBudget, over_budget
from apiserver.custom_resources.definitions.validation.internal_types import (
    internal_fields,
    internal_schema,
    internal_version,
)
from apiserver.custom_resources.definitions.validation.openapi_schemas import (
    ALL,
    SchemaRequirements,
    unrecognized_formats,
    validate_json_schema,
)
from apiserver.custom_resources.definitions.validation.schema_defaults import DefaultsValidator
from apiserver.custom_resources.definitions.validation.schema_rules import check_rules, expressions_of
from apiserver.custom_resources.definitions.validation.schema_tree import nodes, same, validate_extent
from apiserver.custom_resources.definitions.validation.structural_schemas import (
    unsupported,
    validate_structural,
)
from apiserver.custom_resources.definitions.validation.versions import (
    validate_column,
    validate_selectable_fields,
    validate_stored_versions,
    validate_subresources,
    validate_version,
    validate_version_name,
)
from apiserver.golang.quoting import go_quote
from apiserver.meta import names as name_rules
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import is_condition_true
from apiserver.meta.field_errors import Errors, forbidden, invalid, required
from apiserver.meta.vocabulary import Document
from apiserver.schema.extensions import Extensions
from apiserver.schema.structural import Schema
from apiserver.schema.validation.checks import immutable, one_of
from apiserver.schema.validation.documents import at, items

_SCOPES: Final = ("Cluster", "Namespaced")
# With a status subresource, the schema of `status` is used separately: the root may have only these keywords.
_BESIDE_STATUS: Final = (
    *("Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum"),
    *("MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required"),
    *("Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations"),
)
# Fields that are moved beside the versions if all have the same: field of a version, field of the spec.
_IN_COMMON: Final = (
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)


class _Before(NamedTuple):
    """The schemas of a definition before an update: of one version, and of all."""

    schema: Document | None
    all_schemas: Sequence[Document]


class _Part(NamedTuple):
    """The fields of a version, or those that are the same in all versions and outside of them.

    path: that of the version, or `spec`. schema_field: the field that has the schema.
    """

    path: str
    fields: Document
    schema_field: str
    has_status: bool
    before: _Before


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


class _Requirements(NamedTuple):
    """The requirements on a definition, without those that a stored definition did not meet.

    structure: schemas must be structural even if unknown fields are kept.
    schemas: every version must have a schema, not only served ones.
    """

    of_schemas: SchemaRequirements = ALL
    structure: bool = True
    schemas: bool = True
    known_review_version: bool = True
    valid_ca_bundle: bool = False


_DEFAULTS_NEED_V1: Final = (
    "(cannot set default values in apiextensions.{domain}/v1beta1 CRDs, must use apiextensions.{domain}/v1)"
)


class DefinitionValidator:
    """Validates definitions, with the schema of ObjectMeta and the compatibility of the release."""

    def __init__(
        self,
        brand: Brand,
        meta: Callable[[], Schema],
        compatibility: CompatibilityVersion,
        *,
        of_v1beta1: bool = False,
    ) -> None:
        """meta: the schema of ObjectMeta. compatibility: the features that new expressions may use.

        of_v1beta1: whether clients write v1beta1, which has fewer requirements (row T14).
        """
        self._brand, self._compatibility = brand, compatibility
        self._of_v1beta1 = of_v1beta1
        self._extensions = Extensions(brand.vendor)
        self._defaults = DefaultsValidator(self._extensions, meta)

    def validate_create(self, document: Document) -> Errors:
        name = document["metadata"].get("name", "")
        spec = document.get("spec", {})
        errors: Errors = []
        if name and name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
            errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
        errors += self._spec(document, None, self._of_version(_Requirements()))
        return errors + self._rest(document, None)

    def validate_update(self, new: Document, old: Document) -> Errors:
        requirements = _Requirements(
            known_review_version=has_known_review_version(old),
            valid_ca_bundle=is_condition_true(old, ESTABLISHED) and has_valid_ca_bundle(old),
        )
        if self._of_v1beta1:
            requirements = self._of_version(requirements, has_defaults=_has_defaults(_schemas(old)))
        errors = self._spec(new, old, requirements)
        if errors and not validate_extent(_schemas_in_place(old)):
            fewer = self._met_by(old, requirements)
            if fewer != requirements:
                errors = self._spec(new, old, fewer)
        once_established = [("scope",), ("names", "kind")] if is_condition_true(old, ESTABLISHED) else []
        for steps in (*once_established, ("group",), ("names", "plural")):
            path = ".".join(("spec", *steps))
            errors += immutable(path, at(new, "spec", *steps), at(old, "spec", *steps))
        return errors + self._rest(new, old)

    def validate_status_update(self, new: Document, old: Document) -> Errors:
        return _names("status.acceptedNames", at(new, "status", "acceptedNames") or {})

    def over_budget(self, document: Document) -> Iterator[OverBudget]:
        """Yields the costs of rules in a new definition that exceed their limits, as errors name them."""
        spec = _in_common(document.get("spec", {}))
        parts = [
            *(
                (f"spec.versions[{index}].schema", each.get("schema"))
                for index, each in enumerate(spec["versions"])
            ),
            ("spec.validation", spec.get("validation")),
        ]
        for path, holder in parts:
            if (schema := (holder or {}).get("openAPIV3Schema")) is not None:
                yield from over_budget(
                    schema,
                    path=f"{path}.openAPIV3Schema",
                    extensions=self._extensions,
                    versions=self._versions(_Before(None, ())),
                )

    def warn(self, new: Document, old: Document | None) -> list[str]:
        before = unrecognized_formats(_schemas(old)) if old is not None else []
        found = unrecognized_formats(_schemas(new))
        return [f"unrecognized format {go_quote(each)}" for each in found if each not in before]

    def _of_version(self, requirements: _Requirements, *, has_defaults: bool = False) -> _Requirements:
        """Returns the requirements of the version that clients write. has_defaults: whether the definition
        had defaults before.
        """
        if not self._of_v1beta1:
            return requirements
        why = "" if has_defaults else _DEFAULTS_NEED_V1.format(domain=self._brand.group_domain)
        of_schemas = requirements.of_schemas._replace(types=False, no_default=why)
        return requirements._replace(of_schemas=of_schemas, structure=False, schemas=False)

    def _met_by(self, old: Document, requirements: _Requirements) -> _Requirements:
        schemas, names = _schemas(old), self._extensions
        met = SchemaRequirements.met_by(schemas, names)
        of_schemas = requirements.of_schemas
        return requirements._replace(
            of_schemas=of_schemas._replace(
                types=of_schemas.types and met.types, atomic_sets=met.atomic_sets, list_keys=met.list_keys
            ),
            structure=requirements.structure
            and not any(
                unsupported(schema, names) or validate_structural("", schema, names) for schema in schemas
            ),
            schemas=requirements.schemas and len(schemas) == len(versions_of(old)),
        )

    # ---- beside the spec

    def _rest(self, new: Document, old: Document | None) -> Errors:
        errors = _names("status.acceptedNames", at(new, "status", "acceptedNames") or {})
        errors += validate_stored_versions("status.storedVersions", new)
        if self._of_v1beta1:
            return errors
        errors += self._api_approval(new, old)
        if at(new, "spec", "preserveUnknownFields") and not at(old or {}, "spec", "preserveUnknownFields"):
            text = (
                f"cannot set to true, set {self._extensions.preserve_unknown_fields} to true "
                "in spec.versions[*].schema instead"
            )
            errors.append(invalid("spec.preserveUnknownFields", True, text))
        return errors

    def _api_approval(self, new: Document, old: Document | None) -> Errors:
        """Returns the error in the approval, unless it existed before."""
        if not is_protected_group(at(new, "spec", "group") or "", self._brand):
            return []
        found = approval_of(new, self._brand)
        if found.may_be_created or (old is not None and found.message == self._approval_problem(old)):
            return []
        path = f"metadata.annotations[{annotation_key(self._brand)}]"
        if not found.annotation:
            return [required(path, found.message)]
        return [invalid(path, found.annotation, found.message)]

    def _approval_problem(self, old: Document) -> str:
        found = approval_of(old, self._brand)
        return "" if found.may_be_created else found.message

    # ---- the spec

    def _spec(self, document: Document, old: Document | None, requirements: _Requirements) -> Errors:
        spec = _in_common(document.get("spec", {}))
        versions: list[Document] = spec["versions"]
        keeps_unknown = spec.get("preserveUnknownFields", False)
        errors = _group(spec.get("group", ""))
        errors += one_of("spec.scope", spec.get("scope"), _SCOPES, required_text="")
        errors += _missing_schemas(spec, requirements)
        beyond_all = validate_extent(_schemas_in_place(document))
        schemas = _schemas(document) if not beyond_all else []
        errors += beyond_all
        has_defaults = not requirements.of_schemas.no_default and _has_defaults(schemas)
        if has_defaults and keeps_unknown:
            text = "must be false in order to use defaults in the schema"
            errors.append(invalid("spec.preserveUnknownFields", True, text))
        if not keeps_unknown or has_defaults or self._has_extensions(schemas):
            requirements = requirements._replace(structure=True)
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
            has_status = "status" in (spec.get("subresources") or version.get("subresources") or {})
            part = _Part(path, version, "schema", has_status, before(name))
            errors += self._part(part, requirements, looks_into_schema=not beyond_all)
        errors += self._version_set(versions)
        # The internal version has it, as the first version of this API had.
        first_version = versions[0].get("name", "") if versions else ""
        if first_version:
            errors += validate_version_name("spec.version", first_version)
        errors += _spec_names(spec["names"])
        has_status = any("status" in (each.get("subresources") or {}) for each in (spec, *versions))
        part = _Part("spec", spec, "validation", has_status, before(first_version))
        errors += self._part(part, requirements, looks_into_schema=not beyond_all)
        conversion = spec.get("conversion") or {}
        if keeps_unknown and conversion.get("strategy", "None") != "None":
            text = "must be None if spec.preserveUnknownFields is true"
            errors.append(invalid("spec.conversion.strategy", conversion["strategy"], text))
        return errors + validate_conversion(
            "spec.conversion",
            conversion,
            needs_known_review_version=requirements.known_review_version,
            checks_ca_bundle=requirements.valid_ca_bundle,
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

    def _part(self, part: _Part, requirements: _Requirements, *, looks_into_schema: bool) -> Errors:
        errors: Errors = []
        path, fields, schema_field, has_status, before = part
        schema = (fields.get(schema_field) or {}).get("openAPIV3Schema")
        if schema is not None and looks_into_schema:
            where = f"{path}.{schema_field}.openAPIV3Schema"
            errors += self._schema(where, schema, before, has_status=has_status, requirements=requirements)
        errors += validate_subresources(f"{path}.subresources", fields.get("subresources") or {})
        for where, column in items(fields, "additionalPrinterColumns", path):
            errors += validate_column(where, column)
        if selectable := fields.get("selectableFields"):
            where = f"{path}.selectableFields"
            if schema is None:
                # These are Kubernetes' texts; the first says the contrary of what it means.
                is_common = path == "spec"
                what = "validations.schema is" if is_common else "version.schema.openAPIV3Schema is not"
                text = f"selectableFields may only be set when {what} included"
                errors.append(invalid(where, "", text))
            elif looks_into_schema and (problem := unsupported(schema, self._extensions)):
                errors.append(invalid(f"{path}.schema.openAPIV3Schema", "", problem))
            elif looks_into_schema:
                errors += validate_selectable_fields(where, selectable, schema)
        return errors

    def _schema(
        self, path: str, schema: Document, before: _Before, *, has_status: bool, requirements: _Requirements
    ) -> Errors:
        extensions = self._extensions
        errors = self._beside_status(path, schema) if has_status else []
        if schema.get("nullable"):
            errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
        problem, may_have_rules = unsupported(schema, extensions), False
        if requirements.structure and not problem:
            found = validate_structural(path, schema, extensions)
            found = found or self._defaults.validate(path, schema)
            errors += found
            may_have_rules = not found
        json_schema = validate_json_schema(
            path, schema, extensions, requirements.of_schemas, is_supported=not problem
        )
        errors += json_schema.errors
        if problem and requirements.structure and not errors:
            errors.append(invalid(path, "", problem))
        if may_have_rules:
            errors += check_rules(
                schema,
                path=path,
                extensions=self._extensions,
                old_schema=before.schema,
                versions=self._versions(before),
                invalid_paths=json_schema.invalid_paths,
            )
        return errors

    def _versions(self, before: _Before) -> ExpressionVersions:
        stored = (expressions_of(schema, self._extensions) for schema in before.all_schemas)
        return ExpressionVersions(self._compatibility, frozenset(chain.from_iterable(stored)))

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


def _has_defaults(schemas: Sequence[Document]) -> bool:
    return any("default" in node for schema in schemas for node in nodes(schema))


def _in_common(spec: Document) -> Document:
    """Returns the spec with the fields that are the same in all versions moved out of the versions."""
    versions = [dict(version) for version in spec.get("versions") or ()]
    spec = {**spec, "versions": versions, "names": spec.get("names", {})}
    if not versions:
        return spec
    for field, common in _IN_COMMON:
        first = versions[0].get(field)
        if field == "selectableFields" and "validation" not in spec:
            continue  # Their paths lead into the schema, so they stay with it.
        if all(same(version.get(field), first) for version in versions):
            spec[common] = first
            for version in versions:
                version.pop(field, None)
    return spec


def _missing_schemas(spec: Document, requirements: _Requirements) -> Errors:
    if at(spec, "validation", "openAPIV3Schema") is not None:
        return []
    errors: Errors = []
    for index, version in enumerate(spec["versions"]):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if at(version, "schema", "openAPIV3Schema") is not None:
            continue
        if requirements.schemas:
            errors.append(required(path, "schemas are required"))
        elif version.get("served") and not spec.get("preserveUnknownFields"):
            errors.append(required(path, "because otherwise all fields are pruned"))
    return errors


# ---- the group and the names (row S01)


def _group(group: str) -> Errors:
    if not group:
        return [required("spec.group")]
    if problems := name_rules.dns_subdomain(group):
        return [invalid("spec.group", group, ",".join(problems))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def _spec_names(found: Document) -> Errors:
    errors: Errors = [
        required(f"spec.names.{field}")
        for field in ("plural", "singular", "kind", "listKind")
        if not found.get(field)
    ]
    return errors + _names("spec.names", found)


def _names(path: str, found: Document) -> Errors:
    errors: Errors = []
    for field in ("plural", "singular", "kind", "listKind"):
        name, is_kind = found.get(field, ""), field in ("kind", "listKind")
        problems = name_rules.dns1035_label(name.lower() if is_kind else name) if name else []
        if problems:
            text = ",".join(problems)
            if is_kind:
                text = f"may have mixed case, but should otherwise match: {text}"
            errors.append(invalid(f"{path}.{field}", name, text))
    errors += _labels(path, found, "shortNames")
    if found.get("kind") and found["kind"] == found.get("listKind"):
        text = "kind and listKind may not be the same"
        errors.append(invalid(f"{path}.listKind", found["listKind"], text))
    return errors + _labels(path, found, "categories")


def _labels(path: str, holder: Document, field: str) -> Errors:
    return [
        invalid(where, name, ",".join(problems))
        for where, name in items(holder, field, path)
        if (problems := name_rules.dns1035_label(name))
    ]
