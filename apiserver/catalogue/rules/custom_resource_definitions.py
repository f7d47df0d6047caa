"""CustomResourceDefinitions. Source: k8s.io/apiextensions-apiserver, pkg/apis/apiextensions/{v1,validation}
and pkg/registry/customresourcedefinition.

Kubernetes checks a form that it has for itself, in which what all versions have in common stands beside them:
a schema is `spec.validation` there if all versions have the same, else `spec.versions[0].schema`. Errors name
those paths.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from cryptography import x509

from apiserver.brand import Brand
from apiserver.catalogue.rules.common import Errors, at, immutable, items, one_of, setting
from apiserver.catalogue.rules.internal_schemas import internal_fields, internal_schema, internal_version
from apiserver.catalogue.rules.json_schemas import ALL, Demands, unrecognized_formats, validate_json_schema
from apiserver.catalogue.rules.schema_defaults import DefaultRules, EvaluateRules
from apiserver.catalogue.rules.schema_nodes import nodes, same, validate_extent
from apiserver.catalogue.rules.selectable_fields import validate_selectable_fields
from apiserver.catalogue.rules.structural_schemas import unsupported, validate_structural
from apiserver.catalogue.rules.webhook_configurations import webhook_service, webhook_url
from apiserver.field_errors import forbidden, invalid, required
from apiserver.meta import names
from apiserver.registry.strategy import keep_status
from apiserver.schema.compile import Default
from apiserver.schema.custom.document import Extensions
from apiserver.schema.structural import Schema
from apiserver.vocabulary import Document
from storage.quoting import go_quote

_PACKAGE: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_DEPRECATION_WARNING_BYTES_MAX: Final = 256
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
        unclean: frozenset[str],
    ) -> Errors: ...


class _Before(NamedTuple):
    """The schemas that a definition had: of one version, and of all."""

    schema: Document | None
    all_schemas: Sequence[Document]


# ---- what is set


def _complete(definition: Document) -> None:
    status = definition["status"]
    if not status.get("storedVersions"):
        status["storedVersions"] = _storage_version(definition) or None


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
        "storedVersions": _storage_version(document) or None,
    }


def prepare_definition_update(new: Document, old: Document) -> None:
    """A version that becomes the one for storage is among those stored from now on."""
    keep_status(new, old)
    stored = at(new, "status", "storedVersions") or []
    if not set(_storage_version(new)) <= set(stored):
        new["status"] = {**new.get("status", {}), "storedVersions": [*stored, *_storage_version(new)]}


def _storage_version(document: Document) -> list[str]:
    """The name of the first version that is for storage, if there is one."""
    return [version["name"] for version in _versions(document) if version.get("storage")][:1]


def _versions(document: Document) -> list[Document]:
    return at(document, "spec", "versions") or []


def _schemas(document: Document) -> list[Document]:
    return [schema for _, schema in _schemas_in_place(document)]


def _schemas_in_place(document: Document) -> list[tuple[str, Document]]:
    schemas = (at(version, "schema", "openAPIV3Schema") for version in _versions(document))
    return [
        (f"spec.versions[{index}].schema.openAPIV3Schema", schema)
        for index, schema in enumerate(schemas)
        if schema is not None
    ]


def is_established(document: Document) -> bool:
    conditions = at(document, "status", "conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


# ---- what is checked


@dataclass(frozen=True, slots=True)
class _Demands:
    """What is demanded of a definition; less where it was stored before it was demanded.

    structure: schemas are structural even if unknown fields are kept.
    schemas: every version has one, not only those that are served.
    """

    of_schemas: Demands = ALL
    structure: bool = True
    schemas: bool = True
    known_review_version: bool = True
    valid_ca_bundle: bool = False


class DefinitionRules:
    """The checks of definitions in a deployment."""

    def __init__(
        self,
        brand: Brand,
        meta: Callable[[], Schema],
        check_rules: CheckRules,
        evaluate_rules: EvaluateRules,
    ) -> None:
        """meta: the schema of ObjectMeta."""
        self._extensions = Extensions(brand.vendor)
        self._check_rules = check_rules
        self._defaults = DefaultRules(self._extensions, meta, evaluate_rules)
        self._protected = (brand.group_domain, f"{brand.vendor}.io")
        self._approval = f"api-approved.{brand.vendor}.io"

    def validate_create(self, document: Document) -> Errors:
        name = document["metadata"].get("name", "")
        spec = document.get("spec", {})
        errors: Errors = []
        if name and name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
            errors.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
        errors += self._spec(document, None, _Demands())
        return errors + self._rest(document, None)

    def validate_update(self, new: Document, old: Document) -> Errors:
        demands = _Demands(
            known_review_version=_has_known_review_version(old), valid_ca_bundle=_had_valid_ca_bundle(old)
        )
        errors = self._spec(new, old, demands)
        if errors and not validate_extent(_schemas_in_place(old)):
            fewer = self._met_by(old, demands)
            if fewer != demands:
                errors = self._spec(new, old, fewer)
        spec, old_spec = new.get("spec", {}), old.get("spec", {})
        if is_established(old):
            errors += immutable("spec.scope", spec.get("scope"), old_spec.get("scope"))
            kind, old_kind = at(spec, "names", "kind"), at(old_spec, "names", "kind")
            errors += immutable("spec.names.kind", kind, old_kind)
        errors += immutable("spec.group", spec.get("group"), old_spec.get("group"))
        plural, old_plural = at(spec, "names", "plural"), at(old_spec, "names", "plural")
        errors += immutable("spec.names.plural", plural, old_plural)
        return errors + self._rest(new, old)

    def validate_status_update(self, new: Document, old: Document) -> Errors:
        return _names("status.acceptedNames", at(new, "status", "acceptedNames") or {})

    def warn(self, new: Document, old: Document | None) -> list[str]:
        before = unrecognized_formats(_schemas(old)) if old is not None else []
        found = unrecognized_formats(_schemas(new))
        return [f"unrecognized format {go_quote(each)}" for each in found if each not in before]

    def _met_by(self, old: Document, demands: _Demands) -> _Demands:
        schemas, names = _schemas(old), self._extensions
        return replace(
            demands,
            of_schemas=Demands.met_by(schemas, names),
            structure=not any(
                unsupported(schema, names) or validate_structural("", schema, names) for schema in schemas
            ),
            schemas=len(schemas) == len(_versions(old)),
        )

    # ---- beside the spec

    def _rest(self, new: Document, old: Document | None) -> Errors:
        errors = _names("status.acceptedNames", at(new, "status", "acceptedNames") or {})
        errors += _stored_versions("status.storedVersions", new)
        errors += self._api_approval(new, old)
        if at(new, "spec", "preserveUnknownFields") and not at(old or {}, "spec", "preserveUnknownFields"):
            text = (
                f"cannot set to true, set {self._extensions.preserve_unknown_fields} to true "
                "in spec.versions[*].schema instead"
            )
            errors.append(invalid("spec.preserveUnknownFields", True, text))
        return errors

    def _api_approval(self, new: Document, old: Document | None) -> Errors:
        """Groups of the project's own domains are for APIs that it has approved."""
        group = at(new, "spec", "group") or ""
        if not any(group == domain or group.endswith(f".{domain}") for domain in self._protected):
            return []
        found = self._approval_of(new)
        path, problem = f"metadata.annotations[{self._approval}]", self._approval_problem(found)
        if not problem or (old is not None and problem == self._approval_problem(self._approval_of(old))):
            return []
        return [invalid(path, found, problem) if found else required(path, problem)]

    def _approval_of(self, document: Document) -> str:
        annotations = document["metadata"].get("annotations") or {}
        text: str = annotations.get(self._approval, "")
        return text

    def _approval_problem(self, annotation: str) -> str:
        told = f"protected groups must have approval annotation {go_quote(self._approval)}"
        where = "see https://github.com/kubernetes/enhancements/pull/1111"
        if not annotation:
            return f"{told}, {where}"
        if annotation.startswith("unapproved") or _is_url(annotation):
            return ""
        return f'{told} with either a URL or a reason starting with "unapproved", {where}'

    # ---- the spec

    def _spec(self, document: Document, old: Document | None, demands: _Demands) -> Errors:
        spec = _in_common(document.get("spec", {}))
        versions: list[Document] = spec["versions"]
        keeps_unknown = spec.get("preserveUnknownFields", False)
        errors = _group(spec.get("group", ""))
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
            for version in _versions(old or {})
            if (schema := at(version, "schema", "openAPIV3Schema")) is not None
        }

        def before(version: str) -> _Before:
            return _Before(old_schemas.get(version), tuple(old_schemas.values()))

        for index, version in enumerate(versions):
            path, name = f"spec.versions[{index}]", version.get("name", "")
            if problems := names.dns1035_label(name):
                errors.append(invalid(f"{path}.name", name, ",".join(problems)))
            errors += _deprecation(path, version)
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
        errors += _spec_names(spec["names"])
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
        return errors + _conversion("spec.conversion", conversion, demands)

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
        demands: _Demands,
    ) -> Errors:
        """What a version has, or all versions together."""
        errors: Errors = []
        schema = validation.get("openAPIV3Schema") if validation is not None else None
        if schema is not None and looks_into_schema:
            where = f"{schema_path}.openAPIV3Schema"
            errors += self._schema(where, schema, before, has_status=has_status, demands=demands)
        errors += _subresources(f"{path}.subresources", holder.get("subresources") or {})
        for where, column in items(holder, "additionalPrinterColumns", path):
            errors += _column(where, column)
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
        demands: _Demands,
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
                unclean=json_schema.unclean,
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


def _missing_schemas(spec: Document, demands: _Demands) -> Errors:
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


def _group(group: str) -> Errors:
    if not group:
        return [required("spec.group")]
    if problems := names.dns_subdomain(group):
        return [invalid("spec.group", group, ",".join(problems))]
    if "." not in group:
        return [invalid("spec.group", group, "should be a domain with at least one dot")]
    return []


def _spec_names(found: Document) -> Errors:
    """In addition to what holds for names: a spec has to say these."""
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
        problems = names.dns1035_label(name.lower() if is_kind else name) if name else []
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
        if (problems := names.dns1035_label(name))
    ]


def _stored_versions(path: str, document: Document) -> Errors:
    """Row S04: objects may be stored in these, so they have to be known until somebody has seen to it."""
    stored = at(document, "status", "storedVersions")
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    errors: Errors = []
    indexes = {name: index for index, name in enumerate(stored)}
    for version in _versions(document):
        name = version.get("name", "")
        if version.get("storage") and name not in stored:
            errors.append(invalid(path, stored, f"must have the storage version {name}"))
        indexes.pop(name, None)
    return errors + [
        invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} and "
            f"removes {name} from status.storedVersions",
        )
        for name, index in indexes.items()
    ]


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def _deprecation(path: str, version: Document) -> Errors:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    where = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        return [invalid(where, warning, "can only be set for deprecated versions")]
    errors: Errors = []
    if len(warning.encode()) > _DEPRECATION_WARNING_BYTES_MAX:
        errors.append(invalid(where, warning, "must be <= 256 characters long"))
    if not warning:
        errors.append(invalid(where, warning, "must not be an empty string"))
    stray = next((index for index, character in enumerate(warning) if not character.isprintable()), None)
    if stray is not None:
        text = (
            "must only contain printable UTF-8 characters; "
            f"non-printable character found at index {len(warning[:stray].encode())}"
        )
        errors.append(invalid(where, warning, text))
    return errors


# ---- subresources and columns


def _subresources(path: str, subresources: Document) -> Errors:
    scale = subresources.get("scale")
    if scale is None:
        return []
    errors: Errors = []
    for field, part in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        where, found = f"{path}.scale.{field}", scale.get(field, "")
        if not found:
            errors.append(required(where))
        else:
            errors += _json_path(where, found, (part,), f"should be a json path under {part}")
    if found := scale.get("labelSelectorPath"):
        text = "should be a json path under either .spec or .status"
        errors += _json_path(f"{path}.scale.labelSelectorPath", found, (".spec", ".status"), text)
    return errors


def _json_path(path: str, found: str, parts: Sequence[str] = ("",), text: str = "") -> Errors:
    """parts: under which of these it may lead."""
    if not found.startswith("."):
        return [invalid(path, found, "must be a simple json path starting with .")]
    if not any(found.startswith(f"{part}.") for part in parts):
        return [invalid(path, found, text)]
    return []


def _column(path: str, column: Document) -> Errors:
    errors: Errors = [] if column.get("name") else [required(f"{path}.name")]
    for field, known, is_required in (("type", _COLUMN_TYPES, True), ("format", _COLUMN_FORMATS, False)):
        found, text = column.get(field, ""), f"must be one of {','.join(known)}"
        if found and found not in known:
            errors.append(invalid(f"{path}.{field}", found, text))
        elif not found and is_required:
            errors.append(required(f"{path}.{field}", text))
    # The name that the field had in the first version of this API.
    where = f"{path}.JSONPath"
    if not (found := column.get("jsonPath")):
        return [*errors, required(where)]
    return errors + _json_path(where, found)


# ---- conversion


def _conversion(path: str, conversion: Document, demands: _Demands) -> Errors:
    errors = one_of(f"{path}.strategy", conversion.get("strategy"), _STRATEGIES, required_text="")
    webhook = conversion.get("webhook") or {}
    config, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    config_path, versions_path = f"{path}.webhookClientConfig", f"{path}.conversionReviewVersions"
    if conversion.get("strategy") != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        errors += [forbidden(config_path, text)] if config is not None else []
        return errors + ([forbidden(versions_path, text)] if versions else [])
    if config is None:
        errors.append(required(config_path, "required when strategy is set to Webhook"))
    else:
        errors += _client_config(config_path, config, demands)
    return errors + _review_versions(versions_path, versions, demands)


def _client_config(path: str, config: Document, demands: _Demands) -> Errors:
    url, service, bundle = config.get("url"), config.get("service"), config.get("caBundle")
    errors: Errors
    if (url is None) == (service is None):
        errors = [required(path, "exactly one of url or service is required")]
    elif service is not None:
        errors = webhook_service(f"{path}.service", service)
    else:
        errors = webhook_url(f"{path}.url", str(url))
    if bundle and demands.valid_ca_bundle and (problem := _ca_bundle_problem(bundle)):
        errors.append(invalid(f"{path}.caBundle", bundle, f"unable to load root certificates: {problem}"))
    return errors


_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


def _ca_bundle_problem(bundle: str) -> str:
    """Why no certificate can be read from PEM in base64; empty if one can."""
    try:
        _, *blocks = base64.b64decode(bundle).split(_BEGIN)
    except binascii.Error:
        blocks = []
    problem = "unable to parse bytes as PEM block"
    for block in blocks:
        content, end, _ = block.partition(_END)
        if not end:
            continue
        try:
            x509.load_pem_x509_certificate(_BEGIN + content + _END + b"\n")
        except ValueError as error:
            problem = f"failed to parse certificate: {error}"
        else:
            return ""
    return problem


def _review_versions(path: str, versions: Sequence[str], demands: _Demands) -> Errors:
    if not versions:
        return [required(path)]
    errors: Errors = []
    seen: set[str] = set()
    for index, version in enumerate(versions):
        where = f"{path}[{index}]"
        if version in seen:
            errors.append(invalid(where, version, "duplicate version"))
        else:
            errors += [invalid(where, version, problem) for problem in names.dns1035_label(version)]
        seen.add(version)
    if demands.known_review_version and seen.isdisjoint(_REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        errors.append(invalid(path, versions, text))
    return errors


def _has_known_review_version(document: Document) -> bool:
    versions = at(document, "spec", "conversion", "webhook", "conversionReviewVersions")
    return not versions or not set(versions).isdisjoint(_REVIEW_VERSIONS)


def _had_valid_ca_bundle(document: Document) -> bool:
    """Or none; and it is in use."""
    bundle = at(document, "spec", "conversion", "webhook", "clientConfig", "caBundle")
    return is_established(document) and not (bundle and _ca_bundle_problem(bundle))
