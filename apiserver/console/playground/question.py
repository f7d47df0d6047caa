"""What a client asks the playground. Pure."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from apiserver.cel.compiler import PATTERN_FUNCTIONS
from apiserver.custom_resources.definitions.validation.schema_rules import CHARACTERS_MAX
from apiserver.meta.errors import BadRequest
from apiserver.meta.vocabulary import Document

# Of the expression and its variables together, as of all the rules in a schema: CHARACTERS_MAX.
VARIABLES_MAX: Final = 100
# A schema may be nested as deeply as 64 KiB of field names allow; no definition that is known is.
PATH_STEPS_MAX: Final = 64
# More characters of expressions take more than some milliseconds to compile, if many users ask at once.
CHARACTERS_ON_LOOP_MAX: Final = 200
# Constant patterns cost nothing, and the largest take 200 ms each.
PATTERNS_MAX: Final = 16
# Characters of a value that an error quotes.
_QUOTED_MAX: Final = 64
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Kind(enum.Enum):
    """Where the expression could stand: in an admission policy, or in the schema of a custom resource."""

    POLICY = "policy"
    RULE = "rule"


class AskedResource(NamedTuple):
    """The resource whose schema gives the types of objects."""

    group: str
    version: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}/{self.version}" if self.group else self.resource


class Question(NamedTuple):
    """An expression, and what it is evaluated against.

    new, old: the object and the old one; None if there is none.
    has_params: whether the expression may use `params`; params: their value.
    request: what the client says of the request; the rest is made up to fit. namespace: the Namespace.
    variables: names and expressions, in their order.
    path: for a rule, the steps from the object to the value that the rule is about: fields and indices.
    """

    kind: Kind
    expression: str
    new: Document | None = None
    old: Document | None = None
    has_params: bool = False
    params: Document | None = None
    request: Document | None = None
    namespace: Document | None = None
    variables: Sequence[tuple[str, str]] = ()
    resource: AskedResource | None = None
    path: tuple[str | int, ...] = ()
    optional_old_self: bool = False

    @property
    def characters(self) -> int:
        """The length of all expressions."""
        return sum(map(len, self.texts))

    @property
    def texts(self) -> Sequence[str]:
        """All expressions."""
        return [self.expression, *(text for _, text in self.variables)]

    @property
    def takes_long(self) -> bool:
        """Whether it may take longer to compile the expressions than the event loop can wait."""
        return self.characters > CHARACTERS_ON_LOOP_MAX or any(map(PATTERN_FUNCTIONS.search, self.texts))


def question_of(document: Any) -> Question:
    """Returns the question in the body of a request. Raises BadRequest."""
    if type(document) is not dict:
        raise BadRequest("the body must be an object")
    kind = _kind(document.get("kind"))
    fields = _FIELDS[kind]
    if unknown := sorted(document.keys() - fields.keys()):
        raise BadRequest(f"unknown field {_quoted(unknown[0])}: a {kind.value} has {', '.join(fields)}")
    expression = document.get("expression")
    if type(expression) is not str or not expression.strip():
        raise BadRequest("expression must be a string that is not empty")
    asked: dict[str, Any] = {}
    for field, (name, read) in fields.items():
        if document.get(field) is not None:
            asked[name] = read(field, document[field])
    question = Question(**{**asked, "kind": kind, "has_params": "params" in document})
    if question.characters > CHARACTERS_MAX:
        raise BadRequest(
            f"the expressions have {question.characters} characters, more than {CHARACTERS_MAX} together"
        )
    patterns = sum(len(PATTERN_FUNCTIONS.findall(text)) for text in question.texts)
    if patterns > PATTERNS_MAX:
        raise BadRequest(
            f"the expressions use functions of regular expressions {patterns} times, more than {PATTERNS_MAX}"
        )
    return question


def _kind(value: Any) -> Kind:
    try:
        return Kind(Kind.POLICY if value is None else value)
    except ValueError:
        raise BadRequest(f"kind must be policy or rule, not {_quoted(value)}") from None


def _text(field: str, value: Any) -> str:
    if type(value) is not str:
        raise BadRequest(f"{field} must be a string")
    return value


def _flag(field: str, value: Any) -> bool:
    if type(value) is not bool:
        raise BadRequest(f"{field} must be true or false")
    return value


def _object(field: str, value: Any) -> Document:
    if type(value) is not dict:
        raise BadRequest(f"{field} must be an object")
    return value


def _namespace(field: str, value: Any) -> Document:
    document = _object(field, value)
    for part in ("metadata", "spec", "status"):
        _object(f"{field}.{part}", document.get(part) or {})
    meta = document.get("metadata") or {}
    for name in ("creationTimestamp", "deletionTimestamp"):
        _text(f"{field}.metadata.{name}", meta.get(name) or "")
    return {**document, "metadata": meta}


def _resource(field: str, value: Any) -> AskedResource:
    document = _object(field, value)
    if unknown := sorted(document.keys() - set(AskedResource._fields)):
        raise BadRequest(f"unknown field {_quoted(unknown[0])} of {field}")
    return AskedResource(
        *(_text(f"{field}.{name}", document.get(name, "")) for name in AskedResource._fields)
    )


def _variables(field: str, value: Any) -> Sequence[tuple[str, str]]:
    if type(value) is not list:
        raise BadRequest(f"{field} must be a list")
    if len(value) > VARIABLES_MAX:
        raise BadRequest(f"{field} must not have more than {VARIABLES_MAX} items, but has {len(value)}")
    found: list[tuple[str, str]] = []
    for index, each in enumerate(value):
        where = f"{field}[{index}]"
        variable = _object(where, each)
        name, text = (_text(f"{where}.{part}", variable.get(part)) for part in ("name", "expression"))
        if not _NAME.fullmatch(name):
            raise BadRequest(f"{where}.name must be an identifier, not {_quoted(name)}")
        if name in dict(found):
            raise BadRequest(f"{where}.name is that of an earlier variable: {_quoted(name)}")
        if unknown := sorted(variable.keys() - {"name", "expression"}):
            raise BadRequest(f"unknown field {_quoted(unknown[0])} of {where}")
        found.append((name, text))
    return found


def _path(field: str, value: Any) -> tuple[str | int, ...]:
    if type(value) is not list or any(type(step) not in (str, int) for step in value):
        raise BadRequest(f"{field} must be a list of names of fields, keys of maps, and indices of lists")
    if len(value) > PATH_STEPS_MAX:
        raise BadRequest(f"{field} must not have more than {PATH_STEPS_MAX} steps, but has {len(value)}")
    if any(type(step) is int and step < 0 for step in value):
        raise BadRequest(f"{field} must not have negative indices")
    return tuple(value)


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED_MAX else f"{text[:_QUOTED_MAX]}…"


# The fields of a question in a body, with their names here, and what reads their values.
_Fields = Mapping[str, tuple[str, Callable[[str, Any], Any]]]
_COMMON: Final[_Fields] = {
    "kind": ("kind", _text),
    "expression": ("expression", _text),
    "object": ("new", _object),
    "oldObject": ("old", _object),
    "resource": ("resource", _resource),
}
_FIELDS: Final[Mapping[Kind, _Fields]] = {
    Kind.POLICY: {
        **_COMMON,
        "params": ("params", _object),
        "request": ("request", _object),
        "namespaceObject": ("namespace", _namespace),
        "variables": ("variables", _variables),
    },
    Kind.RULE: {**_COMMON, "path": ("path", _path), "optionalOldSelf": ("optional_old_self", _flag)},
}
