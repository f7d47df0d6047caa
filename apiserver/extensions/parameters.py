"""Finds out which arguments the parameters of a function stand for.

The first parameter is the object, whatever its name. If its annotation is a class with fields, the function
gets an instance of the class. The others are found by their types, whatever their names (`Request`, `User`,
`Api` and `AsyncApi`), and otherwise by their names:

    old               the stored object, before the write; None for a create
    request           the `Request`: operation, user, dry run, namespace, name, options
    user              the user of the request
    dry_run           whether nothing will be stored
    namespace_labels  the labels of the object's namespace
    warn              a function that sends a warning to the client
    annotate          a function that adds an annotation to the audit event
    api               a client of the server
    audiences         what a token must be for
    name, namespace   those of the object that a request to a virtual resource is about
    label_selector, field_selector
                      those of a list, as texts

Functions that authenticate get a token first, and those that authorize the attributes of a request. Checks of
health, metrics, and functions that read or delete objects of virtual resources, get nothing first.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, get_origin

from apiserver.extensions.arguments import Request, User
from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.hooks import Kind, Parameters, is_async, place_of, plain

_ADMISSION: Final = frozenset(
    {"old", "request", "user", "dry_run", "namespace_labels", "warn", "annotate", "api"}
)
_OBJECT: Final = frozenset({"name", "namespace", "request", "user", "api"})
_NAMES: Final[Mapping[Kind, frozenset[str]]] = {
    Kind.MUTATE: _ADMISSION,
    Kind.VALIDATE: _ADMISSION,
    Kind.CONVERT: frozenset(),
    Kind.RECONCILE: frozenset({"api"}),
    Kind.AUTHENTICATE: frozenset({"audiences", "api"}),
    Kind.AUTHORIZE: frozenset({"api"}),
    Kind.HEALTHZ: frozenset({"api"}),
    Kind.METRIC: frozenset({"api"}),
    Kind.LIST: (_OBJECT - {"name"}) | {"label_selector", "field_selector"},
    Kind.GET: _OBJECT,
    Kind.WATCH: (_OBJECT - {"name"}) | {"label_selector", "field_selector"},
    Kind.CREATE: _OBJECT | {"dry_run", "warn"},
    Kind.UPDATE: _OBJECT | {"old", "dry_run", "warn"},
    Kind.DELETE: _OBJECT | {"old", "dry_run", "warn"},
}
_BY_TYPE: Final[Mapping[Any, str]] = {Request: "request", User: "user"}
# The clients are known by their names: the server does not need what their module imports.
_CLIENTS: Final = ("apiserver.extensions.api", frozenset({"Api", "AsyncApi"}))
# What a function gets first.
_SUBJECTS: Final[Mapping[Kind, str]] = {Kind.AUTHENTICATE: "the token", Kind.AUTHORIZE: "the attributes"}
_WITH_OBJECTS: Final = (Kind.MUTATE, Kind.VALIDATE, Kind.RECONCILE, Kind.CONVERT, Kind.CREATE, Kind.UPDATE)
_DOCUMENTS: Final = (Any, object, dict, Mapping, inspect.Parameter.empty)


def parameters_of(function: Callable[..., Any], kind: Kind) -> Parameters:
    """Returns what the parameters of a function stand for. Raises InvalidExtension."""
    where = f"{function.__name__} ({place_of(function)})"
    others, types = list(_signature(function, where)), _annotations(function)
    subject = None
    if kind.has_subject:
        if not others:
            raise InvalidExtension(f"{where} needs a parameter for {_SUBJECTS.get(kind, 'the object')}")
        subject = others.pop(0)
    arguments = {}
    for each in others:
        name = _argument(each, types.get(each.name), kind)
        if name is not None:
            arguments[each.name] = name
        elif each.default is inspect.Parameter.empty:
            known = ", ".join(sorted(_NAMES[kind])) or "none"
            raise InvalidExtension(
                f"{where}: nothing is known for the parameter {each.name}; there can be: {known}"
            )
    _require_client(function, arguments, types, where)
    return Parameters(
        subject.name if subject is not None and subject.kind is subject.KEYWORD_ONLY else None,
        *_object_types(subject, arguments, types, kind, where),
        arguments,
    )


def _signature(function: Callable[..., Any], where: str) -> Sequence[inspect.Parameter]:
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise InvalidExtension(f"{where}: its parameters cannot be read") from None
    for each in found:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise InvalidExtension(f"{where}: a parameter cannot be *{each.name}")
    return list(found)


def _annotations(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns the types of parameters. Those that cannot be evaluated are texts."""
    function = plain(function)
    found: dict[str, Any] = {}
    with suppress(NameError):  # Python 3.14 evaluates annotations that are not texts only here.
        found = dict(inspect.get_annotations(function))
    for name, annotation in found.items():
        alone = SimpleNamespace(__annotations__={name: annotation})
        with suppress(Exception):  # Annotations that are texts are any code.
            scope = getattr(function, "__globals__", {})
            found[name] = typing.get_type_hints(alone, scope, include_extras=True)[name]
    return found


def _argument(parameter: inspect.Parameter, annotation: Any, kind: Kind) -> str | None:
    """Returns the name of the argument for a parameter; None if there is none."""
    known = _NAMES[kind]
    by_type = "api" if _client(annotation) else None
    if isinstance(annotation, type):
        by_type = by_type or _BY_TYPE.get(annotation)
    return next((each for each in (by_type, parameter.name) if each in known), None)


def _require_client(
    function: Callable[..., Any], arguments: Mapping[str, str], types: Mapping[str, Any], where: str
) -> None:
    """Raise InvalidExtension for a client that a function cannot use."""
    right, verb = ("AsyncApi", "is") if is_async(function) else ("Api", "is not")
    for name, argument in arguments.items():
        if argument == "api" and _client(types.get(name)) not in ("", right):
            raise InvalidExtension(
                f"{where}: the parameter {name} must be an {right}, as the function {verb} async"
            )


def _client(annotation: Any) -> str:
    """Returns the name of a class if it is that of a client; otherwise an empty text."""
    module, names = _CLIENTS
    name = getattr(annotation, "__name__", "")
    return name if name in names and getattr(annotation, "__module__", "") == module else ""


# ---- objects


def _object_types(
    subject: inspect.Parameter | None,
    arguments: Mapping[str, str],
    types: Mapping[str, Any],
    kind: Kind,
    where: str,
) -> tuple[Any, Any]:
    """Returns the classes of the object and of the old one; None for documents."""
    if subject is None or kind not in _WITH_OBJECTS:
        return None, None
    new = _class_of(types.get(subject.name, Any), f"{where}: the parameter {subject.name}")
    if kind is Kind.CONVERT:
        _require_document(new, where)
        return None, None
    old = new
    for name, argument in arguments.items():
        if argument == "old" and name in types:
            old = _class_of(types[name], f"{where}: the parameter {name}")
    return new, old


def _require_document(found: Any, where: str) -> None:
    """Raise InvalidExtension for a class of which a conversion function cannot get instances."""
    if found is None or issubclass(get_origin(found) or found, dict):
        return
    raise InvalidExtension(
        f"{where}: a conversion function gets a dict or a TypedDict, as objects can lack fields that "
        f"{found.__name__} requires, for example in server-side apply"
    )


def _class_of(annotation: Any, where: str) -> Any:
    """Returns the class of which a parameter gets instances; None for a document."""
    if annotation in _DOCUMENTS or get_origin(annotation) in _DOCUMENTS:
        return None
    # Imported only for functions that need it.
    from apiserver.types.errors import DefinitionError
    from apiserver.types.instances import InstanceDecoder
    from apiserver.types.type_hints import type_form

    try:
        bare = type_form(annotation, where).bare
        if bare in _DOCUMENTS or get_origin(bare) in (dict, Mapping):
            return None
        model = InstanceDecoder().model_of(bare)
    except DefinitionError as error:
        raise InvalidExtension(str(error)) from None
    if model is None:
        raise InvalidExtension(f"{where} must be a dict, or a class with fields, not {annotation!r}")
    return bare
