"""Checks CustomResourceDefinitions as a server does when they are created or replaced, without a server.

Definitions pass the same stages as in a write: the schema with field validation, defaults, validation, and
the names and conditions that the server sets afterwards.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from apiserver.catalogue.apiextensions.custom_resource_definitions import META
from apiserver.catalogue.builtins import Catalogue
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.custom_resources.definitions import RESOURCE, accepted_names, group_of, versions_of
from apiserver.custom_resources.definitions.comparison.changes import Change
from apiserver.custom_resources.definitions.comparison.definition_changes import definition_changes
from apiserver.custom_resources.definitions.conditions import API_APPROVED, NAMES_ACCEPTED, NON_STRUCTURAL
from apiserver.custom_resources.definitions.status import NamesInUse, with_status
from apiserver.custom_resources.definitions.validation.cost_bounds import OverBudget
from apiserver.custom_resources.definitions.validation.custom_resource_definitions import DefinitionValidator
from apiserver.custom_resources.definitions.validation.schema_rules import EXCEEDED
from apiserver.meta.brand import Brand
from apiserver.meta.conditions import find_condition
from apiserver.meta.errors import Invalid
from apiserver.meta.field_errors import FieldError
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.releases.gates import gates_of
from apiserver.meta.vocabulary import Document
from apiserver.registry import write_stages
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.write_request import WriteRequest
from apiserver.schema.builtin import BuiltinSchemas
from apiserver.schema.compile import TypeMismatch
from apiserver.schema.extensions import Extensions

ERROR: Final = "error"
WARNING: Final = "warning"
# The conditions that tell a problem with a definition that the server accepts, and their status then.
_PROBLEMS: Final[Mapping[str, str]] = {NAMES_ACCEPTED: "False", NON_STRUCTURAL: "True", API_APPROVED: "False"}
# Conflicting names are the only one of them that keeps a definition from being served.
_NOT_SERVED: Final = frozenset({NAMES_ACCEPTED})
# The fields of conflicting names, by the reason of the condition.
_CONFLICTS: Final[Mapping[str, str]] = {
    "PluralConflict": "spec.names.plural",
    "SingularConflict": "spec.names.singular",
    "ShortNamesConflict": "spec.names.shortNames",
    "KindConflict": "spec.names.kind",
    "ListKindConflict": "spec.names.listKind",
}
# No condition is shown with its time.
_EPOCH: Final = "1970-01-01T00:00:00Z"


class NotADefinition(ValueError):
    """A document that the server cannot read as a CustomResourceDefinition. The message is one line."""


class DefinitionFinding(NamedTuple):
    """An error or a warning of the server about a definition.

    path: the field; empty if it is about none. reason: as `FieldValueInvalid`; empty for warnings.
    over: the cost of a rule that costs too much.
    """

    severity: str
    path: str
    message: str
    reason: str = ""
    over: OverBudget | None = None


class DefinitionChecker:
    """Checks definitions in the order in which they are created, as names may be in use then.

    release: the Kubernetes release whose rules apply.
    """

    def __init__(self, schemas: BuiltinSchemas, release: EmulatedRelease) -> None:
        self._brand, self._release = Brand(), release
        served = Catalogue(self._brand, schemas, release=release).resources()
        group = group_of(self._brand)
        self._resources = {
            each.api_version: each
            for each in served.resources
            if each.group_resource.group == group and each.resource == RESOURCE
        }
        self._validator = DefinitionValidator(
            self._brand,
            partial(schemas.get, META),
            CompatibilityVersion.of(release, gates_of(release.minor, ())),
        )
        self._names: defaultdict[str, NamesInUse] = defaultdict(NamesInUse)
        self._accepted: dict[str, Document] = {}

    def is_definition(self, document: object) -> bool:
        """Returns whether a document says that it is a CustomResourceDefinition, of any version."""
        return (
            isinstance(document, dict)
            and document.get("kind") == "CustomResourceDefinition"
            and str(document.get("apiVersion")).startswith(f"{group_of(self._brand)}/")
        )

    def read(self, document: Document) -> tuple[Document, Sequence[str]]:
        """Returns a copy of a definition with its defaults, and the paths of unknown fields, which it lacks.

        Raises NotADefinition; Invalid if the version of the definition cannot be converted.
        """
        resource = self._resource(document)
        read = copy.deepcopy(document)
        try:
            unknown = resource.check(read)
            read.setdefault("metadata", {})
        except TypeMismatch as error:
            raise NotADefinition(str(error)) from None
        return resource.codec.to_hub(read), unknown

    def check(self, document: Document) -> list[DefinitionFinding]:
        """Returns all that the server would say about a definition that a client creates.

        Unknown fields are errors: kubectl asks for strict field validation.
        """
        try:
            definition, unknown = self.read(document)
        except NotADefinition as error:
            return [DefinitionFinding(ERROR, "", str(error))]
        except Invalid as error:
            causes = (error.details or {})["causes"]
            return [
                DefinitionFinding(ERROR, each["field"], each["message"], each["reason"]) for each in causes
            ]
        found = [DefinitionFinding(ERROR, path, f'unknown field "{path}"') for path in unknown]
        definition["metadata"] = {
            name: value for name, value in definition["metadata"].items() if name not in _SET_BY_SERVER
        }
        request = WriteRequest(resource=self._resource(document), namespace="")
        write_stages.prepare_create(request, definition, _EPOCH)
        errors, warnings = write_stages.validate_create(request, definition, False)
        costs = self._costs(definition, errors)
        found += [
            DefinitionFinding(
                ERROR,
                error.field,
                error.message,
                error.reason,
                costs.get(error.field) if EXCEEDED in error.message else None,
            )
            for error in errors
        ]
        found += [DefinitionFinding(WARNING, "", warning) for warning in warnings]
        return found if errors else [*found, *self._conditions(definition)]

    def compare(self, old: Document, new: Document) -> list[Change]:
        """Returns the changes from a definition to one that replaces it, with the server's errors about this.

        Raises NotADefinition, Invalid.
        """
        before, after = self.read(old)[0], self.read(new)[0]
        if not (versions_of(before) and versions_of(after)):
            raise NotADefinition("spec.versions: Required value")
        found = definition_changes(before, after, Extensions(self._brand.vendor))
        return [*found, *self._refusals(before, after)]

    def _refusals(self, old: Document, new: Document) -> Iterator[Change]:
        """Yields the errors of an update that are no changes by themselves."""
        names = NamesInUse()
        if not old.get("status"):
            old = {**old, "status": {}}
        served = with_status(old, names, _EPOCH, brand=self._brand)
        update = self._resource(old).strategy.update
        update.prepare(new, served)
        for error in update.validate(new, served):
            if not error.field.startswith(_COMPARED):
                text = f"The server refuses the new definition: {error.message}"
                yield Change("UpdateRefused", error.field, is_breaking=True, message=text)

    def _resource(self, document: Document) -> ServedResource:
        version = document.get("apiVersion")
        found = self._resources.get(version) if isinstance(version, str) else None
        if found is None:
            served = " and ".join(self._resources)
            raise NotADefinition(f"Kubernetes {self._release} does not serve {version}, but {served}")
        return found

    def _costs(self, definition: Document, errors: Sequence[FieldError]) -> Mapping[str, OverBudget]:
        """Returns the costs that are too high, by the fields of the errors about them."""
        if not any(EXCEEDED in error.message for error in errors):
            return {}
        return {each.field: each for each in self._validator.over_budget(definition)}

    def _conditions(self, definition: Document) -> Iterator[DefinitionFinding]:
        """Yields what the conditions of an accepted definition report, and takes its names."""
        in_use, name = self._names[definition["spec"]["group"]], definition["metadata"]["name"]
        if (before := self._accepted.get(name)) is not None:
            in_use.remove(before)
        served = with_status(definition, in_use, _EPOCH, brand=self._brand)
        self._accepted[name] = accepted_names(served)
        in_use.add(self._accepted[name])
        for kind, status in _PROBLEMS.items():
            held = find_condition(served, kind)
            if held is not None and held["status"] == status:
                severity = ERROR if kind in _NOT_SERVED else WARNING
                path = _CONFLICTS.get(held["reason"], "")
                yield DefinitionFinding(severity, path, f"{kind}={status}: {held['message']}", held["reason"])


# The fields whose errors in an update follow from changes that are named otherwise.
_COMPARED: Final = (
    *("spec.group", "spec.scope", "spec.names.plural", "spec.names.kind", "status.storedVersions"),
)
# Fields in definitions that were read from a server, and the namespace, which the server drops in writes.
_SET_BY_SERVER: Final = frozenset(
    {"creationTimestamp", "uid", "resourceVersion", "managedFields", "generation", "selfLink", "namespace"}
)
