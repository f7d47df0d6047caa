"""Reads the schemas of OpenAPI documents, and of the built-in types: they refer to each other by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from apiserver.types.code_generation.names import class_name, unique
from apiserver.types.code_generation.schema_reader import Document, SchemaReader
from apiserver.types.code_generation.tree import (
    ABSENT,
    AnyOf,
    MapOf,
    Marker,
    Model,
    Named,
    TypeUse,
    object_fields,
)

_GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_ANY: Final = TypeUse(Named("Any"))
_INT_OR_STRING: Final = "int-or-string"
_QUANTITY: Final = ".resource.Quantity"
_NULL: Final = "null"
# Keywords that say how clients patch, or what Go calls a field.
_DROPPED: Final = frozenset({"Keywords", "Preserve"})


def resource_names(schemas: Mapping[str, Any], group_version: str = "") -> list[str]:
    """Returns the names of the schemas of whole objects; of all schemas if none is.

    group_version: of the objects, as `apps/v1`; empty for all.
    """
    found = [
        name
        for name, schema in schemas.items()
        if (kind := _kind_of(schema)) and group_version in ("", kind[0])
    ]
    return found if found or group_version else list(schemas)


def group_versions(schemas: Mapping[str, Any]) -> frozenset[str]:
    """Returns the groups and versions of the schemas of whole objects, as `apps/v1`."""
    return frozenset(kind[0] for schema in schemas.values() if (kind := _kind_of(schema)))


class OpenApiReader(SchemaReader):
    """Reads named schemas. A name is of a model if its schema has properties, or else of another type."""

    def __init__(self, reserved: frozenset[str], schemas: Mapping[str, Any]) -> None:
        super().__init__(reserved, schemas.values())
        self._schemas = schemas
        self._named: dict[str, Model] = {}
        self._aliases: set[str] = set()

    def models(self, names: list[str]) -> list[Model]:
        """Returns the models of named schemas; those of other types are left out."""
        uses = [self._use(name) for name in names]
        return [use.type for use in uses if isinstance(use.type, Model)]

    def type_use(self, schema: Document, path: str, leaf: str) -> TypeUse:
        schema = _with_one_type(schema)
        is_nullable = "enum" not in schema and bool(schema.get("nullable"))
        if name := _reference(schema):
            use = self._use(name)
        elif members := schema.get("oneOf") or schema.get("anyOf"):
            use = self._alternatives(schema, members, path, leaf)
        elif schema.get("type") == "object" and "properties" not in schema:
            values = schema.get("additionalProperties", True)
            inner = self.type_use(values, path, leaf) if isinstance(values, dict) else _ANY
            use = TypeUse(MapOf(inner))
        elif not schema.get("type"):
            use = _ANY
        else:
            use = super().type_use({key: schema[key] for key in schema if key != "description"}, path, leaf)
        description = schema.get("description", "")
        markers = [marker for marker in use.markers if marker.name not in _DROPPED]
        # A class has its own description, unless the place has another one.
        if description and (_reference(schema) or not isinstance(use.type, Model)):
            markers = [Marker("Doc", (description,)), *(each for each in markers if each.name != "Doc")]
        return use._replace(markers=tuple(markers), is_nullable=use.is_nullable or is_nullable)

    def default(self, schema: Document) -> Any:
        """Returns the default; empty values are those of Go's types, not of the API."""
        value = super().default(schema)
        return ABSENT if value in ("", 0, {}, []) and value is not ABSENT else value

    def _alternatives(self, schema: Document, members: list[Any], path: str, leaf: str) -> TypeUse:
        if schema.get("format") == _INT_OR_STRING:
            return TypeUse(Named("IntOrString"))
        if not all(map(_has_type, members)):
            return _ANY
        return TypeUse(AnyOf(tuple(self.type_use(each, path, leaf) for each in members)))

    def _use(self, name: str) -> TypeUse:
        schema = _with_one_type(self._schemas.get(name, {}))
        if name.endswith(_QUANTITY):
            return TypeUse(Named("Quantity"))
        if schema.get("format") == _INT_OR_STRING:
            return TypeUse(Named("IntOrString"))
        if "properties" in schema:
            return TypeUse(self._model(name, schema))
        if name in self._aliases:
            return _ANY  # An alias of itself.
        self._aliases.add(name)
        use = self.type_use(schema, self._class_name(name), name)
        self._aliases.discard(name)
        return use

    def _model(self, name: str, schema: Document) -> Model:
        model = self._named.get(name)
        if model is None:
            # Known before it is complete: schemas refer to themselves.
            model = self._named[name] = Model(self._class_name(name))
            self._taken.add(model.name)
            self._complete(model, schema, model.name)
            if kind := _kind_of(schema):
                own = {field.json_name for field in object_fields(*kind)}
                others = [field for field in model.fields if field.json_name not in own - {"metadata"}]
                model.fields = [*object_fields(*kind)[:2], *others]
        return model

    def _class_name(self, name: str) -> str:
        """Returns the last part of a name; if it is taken, with the group and version before it."""
        *package, short = name.split(".")
        candidates = (class_name(short), class_name("-".join([*package[-2:], short])))
        return next(
            (each for each in candidates if each not in self._taken), unique(candidates[-1], self._taken)
        )


def _kind_of(schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the group and version, and the kind, of the schema of whole objects; else None.

    Requests such as DeleteOptions are no such objects: all groups have them.
    """
    kinds: list[dict[str, str]] = schema.get(_GROUP_VERSION_KIND) or []
    if len(kinds) != 1 or "metadata" not in schema.get("properties", {}):
        return None
    kind = kinds[0]
    group = f"{kind['group']}/" if kind.get("group") else ""
    return f"{group}{kind['version']}", kind["kind"]


def _reference(schema: Mapping[str, Any]) -> str:
    """Returns the name of the schema that a schema refers to; empty if it refers to none.

    A description or a default beside a reference makes it the only member of `allOf`.
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    match schema.get("allOf"):
        case [{"$ref": str(reference)}]:
            return reference.rpartition("/")[2]
    return ""


def _with_one_type(schema: Document) -> Document:
    """Returns a schema whose type is text, and that says null as OpenAPI 3.0 does.

    OpenAPI 3.1 also has lists of types, as `["string", "null"]`, and null as an alternative.
    """
    for keyword in ("anyOf", "oneOf"):
        members = schema.get(keyword) or []
        others = [each for each in members if each.get("type") != _NULL]
        if len(others) < len(members):
            rest = {name: value for name, value in schema.items() if name != keyword}
            one = others[0] if len(others) == 1 else {keyword: others}
            return _with_one_type({**one, **rest, "nullable": True})
    kind = schema.get("type")
    if isinstance(kind, list):
        found = {**schema, "type": next((each for each in kind if each != _NULL), "")}
        return {**found, "nullable": True} if _NULL in kind else found
    if kind == _NULL:
        return {name: value for name, value in schema.items() if name != "type"}
    return {**schema, "type": "object"} if kind is None and "properties" in schema else schema


def _has_type(schema: Mapping[str, Any]) -> bool:
    return "type" in schema or "$ref" in schema
