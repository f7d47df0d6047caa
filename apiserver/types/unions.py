"""Unions: the structural schema of values that may have one of several types.

A structural schema has all fields of a union's models side by side, and `oneOf` says which fields each
model requires. A field with an enumeration that differs in all models, as of `kind: Literal["disk"]`,
tells them apart.
Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
    custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from apiserver.types.cel_expressions import constant, field_name
from apiserver.types.errors import Unrepresentable
from apiserver.types.json_values import same

Schema = dict[str, Any]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
# What is only said in words, or differs between the members of a union.
_IGNORED = ("description", "default")
_OLD = re.compile(r"\boldSelf\b")


class Member(NamedTuple):
    """A model of a union, with its schema."""

    name: str
    schema: Schema

    @property
    def properties(self) -> dict[str, Schema]:
        properties: dict[str, Schema] = self.schema.get("properties", {})
        return properties

    @property
    def required(self) -> list[str]:
        required: list[str] = self.schema.get("required", [])
        return required


def union_schema(members: Sequence[Member], path: str) -> Schema:
    """Returns the schema of a union of models.

    A field keeps its default only if all models have the field and the default: the server would set it in
    objects of all models. Raises Unrepresentable: nothing tells the models apart, or a field has two types.
    """
    tag = tag_of([_enumerations(member) for member in members])
    conditions = [_condition(member, tag) for member in members]
    if tag is None:
        _require_distinct(members, path)
    names = list(dict.fromkeys(name for member in members for name in member.properties))
    schema: Schema = {
        "type": "object",
        "properties": {name: _property(name, members, name == tag, path) for name in names},
    }
    if common := [name for name in names if all(name in (*member.required, tag) for member in members)]:
        schema["required"] = common
    schema["oneOf"] = conditions
    if any(member.schema.get(_PRESERVE) for member in members):
        schema[_PRESERVE] = True
    if rules := [rule for member in members for rule in _guarded_rules(member, tag, path)]:
        schema["x-kubernetes-validations"] = rules
    return schema


def tag_of(models: Sequence[Mapping[str, Sequence[Any]]]) -> str | None:
    """Returns the first field that tells models apart, if there is one. Objects must have it, whatever its
    default.

    It is an enumeration in all models, with different values of one type. models: the enumerations of each,
    by field.
    """
    for name in models[0]:
        values = [value for fields in models for value in fields.get(name, ())]
        is_everywhere = all(name in fields for fields in models)
        if is_everywhere and len({*map(type, values)}) == 1 and len(values) == len(set(values)):
            return name
    return None


def _enumerations(member: Member) -> Mapping[str, Sequence[Any]]:
    return {name: schema["enum"] for name, schema in member.properties.items() if "enum" in schema}


def _condition(member: Member, tag: str | None) -> Schema:
    if tag is None:
        return {"required": member.required}
    required = [tag, *(name for name in member.required if name != tag)]
    return {"properties": {tag: {"enum": member.properties[tag]["enum"]}}, "required": required}


def _require_distinct(members: Sequence[Member], path: str) -> None:
    hint = 'add a field such as kind: Literal["disk"] to each model'
    for member in members:
        for other in members:
            if member is not other and set(member.required) <= set(other.required):
                reason = f"an object of {other.name} may also be one of {member.name}"
                raise Unrepresentable(path, reason, hint)


def _property(name: str, members: Sequence[Member], is_tag: bool, path: str) -> Schema:
    found = [member.properties[name] for member in members if name in member.properties]
    schema = dict(found[0])
    if is_tag:
        schema["enum"] = [value for each in found for value in each["enum"]]
        schema.pop("default", None)
    elif any(not same(_compared(schema), _compared(each)) for each in found):
        raise Unrepresentable(
            path, f"the field {name} has different types in {_names(members)}", "rename one of the fields"
        )
    elif len(found) < len(members) or any(each.get("default") != schema.get("default") for each in found):
        schema.pop("default", None)
    return schema


def _compared(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in _IGNORED}


def _names(members: Iterable[Member]) -> str:
    return " and ".join(member.name for member in members)


def _guarded_rules(member: Member, tag: str | None, path: str) -> list[Schema]:
    """Returns the rules of a model, which hold only for its own objects.

    A rule that compares with the old object holds only if both are the model's. Raises Unrepresentable.
    """
    rules = member.schema.get("x-kubernetes-validations", ())
    return [{**rule, "rule": f"!({_guard(rule, member, tag, path)}) || ({rule['rule']})"} for rule in rules]


def _guard(rule: Schema, member: Member, tag: str | None, path: str) -> str:
    condition = _is_member("self", member, tag, path)
    if _OLD.search(rule["rule"]) and not rule.get("optionalOldSelf"):
        return f"{condition} && {_is_member('oldSelf', member, tag, path)}"
    return condition


def _is_member(variable: str, member: Member, tag: str | None, path: str) -> str:
    """Returns the condition in CEL that an object is one of the model. Raises Unrepresentable."""
    if tag is not None:
        values = ", ".join(constant(value) for value in member.properties[tag]["enum"])
        return f"{_field(variable, tag, path)} in [{values}]"
    return " && ".join(f"has({_field(variable, name, path)})" for name in member.required)


def _field(variable: str, name: str, path: str) -> str:
    if (field := field_name(name)) is None:
        raise Unrepresentable(path, f"rules in CEL cannot access the field {name!r}", "rename the field")
    return f"{variable}.{field}"
