"""StorageVersions: the version in which each server of a cluster stores the objects of a resource.

Source: pkg/apis/apiserverinternal/validation, pkg/registry/apiserverinternal/storageversion and
pkg/printers/internalversion (release 1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from apiserver.catalogue.builtin_type import BuiltinType, clear_status, status_without_metadata
from apiserver.catalogue.common.columns import first_few
from apiserver.golang.formatting import go_text
from apiserver.meta import names
from apiserver.meta.field_errors import Errors, invalid, required
from apiserver.meta.table import AGE, Column, columns, field_cell
from apiserver.meta.vocabulary import Document
from apiserver.registry.strategy import Strategy, UpdateStrategy, keep_status
from apiserver.schema.validation.checks import follows
from apiserver.schema.validation.documents import at, items

_UNSET: Final = "<unset>"
# Errors of one server that list all versions that it can decode, which may be many.
_NOT_DECODABLE_SHOWN_MAX: Final = 16
_NOT_API_VERSION: Final = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or "
    "'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain "
    "prefix and '/' (e.g. 'example.com/MyVersion')"
)


def storage_version_name(name: str) -> list[str]:
    """Returns the errors in a name, which has the form `<group>.<resource>`."""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    return [
        *(f"the group segment {problem}" for problem in names.dns_subdomain(group)),
        *(f"the resource segment {problem}" for problem in names.dns1035_label(resource)),
    ]


def validate_status(new: Document, old: Document) -> Errors:
    status = new.get("status") or {}
    errors: Errors = []
    for where, server in items(status, "storageVersions", "status"):
        errors += _server(where, server)
    return errors + _common_version(status) + _conditions(status)


def _server(path: str, server: Document) -> Errors:
    identity, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    errors = follows(f"{path}.apiServerID", identity, names.dns_subdomain)
    errors += _api_version(f"{path}.encodingVersion", encoding)
    decodable = server.get("decodableVersions") or []
    for where, version in items(server, "decodableVersions", path):
        errors += _api_version(where, version)
    if encoding not in decodable:
        text = f"decodableVersions must include encodingVersion {encoding}"
        errors.append(invalid(f"{path}.decodableVersions", decodable, text))
    return errors + _served(path, server, decodable)


def _served(path: str, server: Document, decodable: Sequence[str]) -> Errors:
    known, every = set(decodable), go_text(decodable)
    errors: Errors = []
    not_decodable = 0
    for where, version in items(server, "servedVersions", path):
        errors += _api_version(where, version)
        if version not in known and not_decodable < _NOT_DECODABLE_SHOWN_MAX:
            not_decodable += 1
            text = f"individual served version : {version} must be included in decodableVersions : {every}"
            errors.append(invalid(where, version, text))
    return errors


def _common_version(status: Document) -> Errors:
    """Checks that the common version is that of all servers, if these have the same."""
    path, common_version = "status.commonEncodingVersion", status.get("commonEncodingVersion")
    versions = {server.get("encodingVersion", "") for server in status.get("storageVersions") or ()}
    if len(versions) != 1:
        if common_version is None:
            return []
        text = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server "
            "reporting the supported versions yet"
        )
        return [invalid(path, common_version, text)]
    (common,) = versions
    if common_version is None:
        return [invalid(path, None, f"the common encoding version is {common}")]
    return (
        []
        if common_version == common
        else [invalid(path, common_version, f"the actual common encoding version is {common}")]
    )


def _conditions(status: Document) -> Errors:
    """Checks conditions. As in Kubernetes, the paths lack the name of the field."""
    errors: Errors = []
    seen: dict[str, int] = {}
    for index, condition in enumerate(status.get("conditions") or ()):
        path, kind = f"status[{index}]", condition.get("type", "")
        if kind in seen:
            text = f"the type of the condition is not unique, it also appears in conditions[{seen[kind]}]"
            errors.append(invalid(f"{path}.type", kind, text))
        seen[kind] = index
        errors += follows(f"{path}.type", kind, names.qualified_name)
        # Kubernetes shows the type here, not the status.
        problems = names.qualified_name(condition.get("status", ""))
        errors += [invalid(f"{path}.status", kind, problem) for problem in problems]
        errors += [
            required(f"{path}.{field}", f"{field} cannot be empty")
            for field in ("reason", "message")
            if not condition.get(field)
        ]
    return errors


def _api_version(path: str, text: str) -> Errors:
    """Checks a version with or without a group, as `apps/v1`."""
    problems = _api_version_problems(text)
    return [invalid(path, text, ",".join(problems))] if problems else []


def _api_version_problems(text: str) -> Sequence[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return [_NOT_API_VERSION]
    problems = []
    if len(parts) == 2:
        problems += [f"group part: {problem}" for problem in _named(parts[0], names.dns_subdomain)]
    problems += [f"version part: {problem}" for problem in _named(parts[-1], names.dns1035_label)]
    return problems


def _named(text: str, rule: names.NameRule) -> list[str]:
    return rule(text) if text else ["must be non-empty"]


def _stored(document: Document, now: float) -> str:
    servers: Sequence[Document] = at(document, "status", "storageVersions") or ()
    told = [f"{each.get('apiServerID', '')}={each.get('encodingVersion', '')}" for each in servers]
    return first_few(told, empty="")


BUILTIN_TYPE: Final = BuiltinType(
    "internal.apiserver.",
    "v1alpha1",
    "storageversions",
    "StorageVersion",
    "io.k8s.api.apiserverinternal.v1alpha1.StorageVersion",
    is_namespaced=False,
    subresources=(status_without_metadata(validate_status),),
    strategy=Strategy(
        name_rule=storage_version_name,
        prepare_create=clear_status,
        update=UpdateStrategy(keep_status),
        allows_unconditional_update=False,
    ),
    columns=columns(
        Column(
            "CommonEncodingVersion",
            field_cell("status", "commonEncodingVersion", default=_UNSET),
            "The storage version of all servers, if they agree.",
        ),
        Column("StorageVersions", _stored, "The storage version of each server."),
        AGE,
    ),
)
