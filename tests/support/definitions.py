"""Definitions of custom resources for tests, each in a group of its own."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.support.api import Answer, Api
from tests.support.eventually import until

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers: Final = itertools.count(1)

Schema = Mapping[str, Any]
OPEN_SPEC: Final[Schema] = {
    "type": "object",
    "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
SPEC: Final[Schema] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}},
        "status": {"type": "object", "properties": {"message": {"type": "string"}}},
    },
}


def version(name: str = "v1", *, schema: Schema = SPEC, storage: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(
    group: str, *versions: Mapping[str, Any], plural: str = "widgets", kind: str = "Widget", **spec: Any
) -> dict[str, Any]:
    """A definition to post, with one version like SPEC if none is given."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, **spec.pop("names", {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def new_group() -> str:
    """An API group that no other test of this process uses."""
    return f"g{next(_numbers)}.example.com"


@dataclass
class Defined:
    """A definition that is established, and the paths of its objects."""

    api: Api
    group: str
    name: str
    kind: str

    @property
    def path(self) -> str:
        return f"{DEFINITIONS}/{self.name}"

    def objects(self, namespace: str = "default", version: str = "v1") -> str:
        return f"/apis/{self.group}/{version}/namespaces/{namespace}/{self.name.partition('.')[0]}"

    def body(self, name: str, version: str = "v1", **fields: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/{version}",
            "kind": self.kind,
            "metadata": {"name": name},
            **fields,
        }

    def create(self, name: str, namespace: str = "default", version: str = "v1", **fields: Any) -> Answer:
        return self.api.post(self.objects(namespace, version), self.body(name, version, **fields))

    @property
    def create_rule(self) -> dict[str, Any]:
        """The rule of a webhook or a policy about creates in v1."""
        plural = self.name.partition(".")[0]
        return {
            "apiGroups": [self.group],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": [plural],
        }

    def change(self, operations: Sequence[Mapping[str, Any]]) -> None:
        """Patch the definition."""
        self.api.patch(self.path, list(operations), type="json-patch").ok()


def define(api: Api, document: Mapping[str, Any]) -> Defined:
    """Post a definition and wait until it is established and its objects can be asked for."""
    made = api.post(DEFINITIONS, document).ok()
    name, spec = made["metadata"]["name"], made["spec"]
    defined = Defined(api, spec["group"], name, spec["names"]["kind"])
    until(lambda: api.get(defined.path), is_established, "Established")
    served = next(each["name"] for each in spec["versions"] if each["served"])
    path = f"/apis/{spec['group']}/{served}/{spec['names']['plural']}"
    until(lambda: api.get(path), lambda answer: answer.status == 200, "served")
    return defined


def define_two_versions(api: Api, schema: Schema) -> Defined:
    """Define a type whose versions v1, which is stored, and v2 have the same schema."""
    versions = version("v1", schema=schema), version("v2", schema=schema, storage=False)
    return define(api, definition(new_group(), *versions))


def condition(document: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A condition of a definition, by type; empty if there is none."""
    conditions = document.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def is_established(answer: Answer) -> bool:
    return answer.status == 200 and condition(answer.json, "Established").get("status") == "True"
