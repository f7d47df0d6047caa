"""Calls the functions of an extension with the arguments that their parameters name.

`parameters` says which these are.

A call and its result are mappings that can be written as JSON, so that the same code runs in a worker process
and in the server's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from apiserver.extensions.arguments import AccessAttributes, Request, User
from apiserver.extensions.hooks import Hook, Kind, Mode
from apiserver.extensions.metric_declarations import samples_of

if TYPE_CHECKING:
    from apiserver.extensions.typed_objects import TypedObjects

# Of all warnings and annotations of one call.
TEXTS_MAX: Final = 100
# How long the client of a function for a watch can be used. The server ends watches sooner.
WATCH_S_MAX: Final = 86_400.0
# Functions whose result is the object that they get, or another one.
_CHANGES: Final = (Kind.MUTATE, Kind.CREATE, Kind.UPDATE)


class WrongResult(TypeError):
    """A function has returned something that its kind cannot."""


class Invocation:
    """One hook, ready to be called many times.

    make_api: makes the client for the parameter `api`, for a mode and the end of the call by
    `time.monotonic`.
    """

    def __init__(self, hook: Hook, make_api: Callable[[Mode, float], Any]) -> None:
        self.hook = hook
        self.kind, self.mode = hook.kind, hook.mode
        self._has_subject = hook.kind.has_subject
        self._first, subject_type, old_type, self._arguments = hook.parameters
        self.objects, self.old_objects = _typed(subject_type), _typed(old_type)
        # Most functions that mutate or validate: they are called without further ado.
        self.takes_only_subject = (
            self._has_subject and self._first is None and not self._arguments and self.objects is None
        )
        self._make_api = make_api

    def begin(
        self, call: Mapping[str, Any], timeout_s: float | None = None, encoded: bytes | None = None
    ) -> HookCall:
        """Returns a call, whose time begins now.

        timeout_s: by default, that of the hook. encoded: the object that the function gets first, if the
        caller has encoded it.
        """
        if self.kind is Kind.CONVERT:
            return ConversionCall(self, call)
        if self.kind is Kind.WATCH:
            timeout_s = WATCH_S_MAX
        return Call(self, call, self.hook.timeout_s if timeout_s is None else timeout_s, encoded)

    def convert(self, document: Any) -> Any:
        """Call a conversion function; if it is async, the result is to be awaited."""
        function = self.hook.function
        return function(document) if self._first is None else function(**{self._first: document})

    def arguments(self, call: Call) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Returns the positional arguments and those by name."""
        by_name: dict[str, Any] = {}
        for name, argument in self._arguments.items():
            is_client = argument == "api"
            by_name[name] = self._make_api(self.mode, call.ends_at) if is_client else call.argument(argument)
        if self._first is not None:
            return (), {self._first: call.subject, **by_name}
        return ((call.subject,) if self._has_subject else ()), by_name


def _typed(hint: Any) -> TypedObjects | None:
    if hint is None:
        return None
    # Imported only for functions that need it.
    from apiserver.extensions.typed_objects import TypedObjects

    return TypedObjects(hint)


class Call:
    """One call of a hook: the arguments, and what becomes of the result.

    subject: what the function gets first, such as an object, or its instance of a class once it runs.
    ends_at: when its time is over, by `time.monotonic`. is_intact: whether it is known, once there is a
    result, that the function has not changed the object that it got.
    """

    def __init__(
        self,
        invocation: Invocation,
        call: Mapping[str, Any],
        timeout_s: float,
        encoded: bytes | None = None,
    ) -> None:
        self._invocation, self._call = invocation, call
        self.kind = invocation.kind
        self.ends_at = time.monotonic() + timeout_s
        self._warnings: list[str] = []
        self._annotations: dict[str, str] = {}
        found = call.get("object")
        if found is None:
            found = self._other_subject()
        self.subject = self._document = found
        # An instance as it was before the function has changed it.
        self._unchanged: Any = None
        self.is_intact = False
        if encoded is None and self.kind is Kind.MUTATE:
            encoded = orjson.dumps(self.subject)
        self._before = encoded

    def _other_subject(self) -> Any:
        """Returns what a function gets first if that is no object, or one that is deleted."""
        call = self._call
        match self.kind:
            case Kind.AUTHENTICATE:
                return call.get("token")
            case Kind.AUTHORIZE:
                return AccessAttributes(call.get("attributes") or {})
            case _:
                return call.get("oldObject")

    def argument(self, name: str) -> Any:
        request = Request(self._call.get("request") or {})
        match name:
            case "old":
                old, objects = self._call.get("oldObject"), self._invocation.old_objects
                return old if objects is None else objects.instance(old)
            case "request":
                return request
            case "user":
                return request.user
            case "dry_run":
                return request.dry_run
            case "namespace_labels":
                return self._call.get("namespaceLabels") or {}
            case "audiences":
                return self._call.get("audiences") or []
            case "name":
                return request.name
            case "namespace":
                return request.namespace
            case "label_selector":
                return request.options.get("labelSelector") or ""
            case "field_selector":
                return request.options.get("fieldSelector") or ""
            case "warn":
                return self._warn
            case _:
                return self._annotate

    def _warn(self, message: str) -> None:
        if not isinstance(message, str):
            raise TypeError(f"warn takes a text, not {type(message).__name__}")
        if len(self._warnings) < TEXTS_MAX:
            self._warnings.append(message)

    def _annotate(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError("annotate takes two texts")
        if len(self._annotations) < TEXTS_MAX:
            self._annotations[key] = value

    def run(self) -> Any:
        """Call the function; if it is async, the result is to be awaited."""
        if self._invocation.takes_only_subject:
            return self._invocation.hook.function(self.subject)
        objects = self._invocation.objects
        if objects is not None:
            self.subject = objects.instance(self._document)
            if self.kind in _CHANGES:
                self._unchanged = objects.encoded(self.subject)
        positional, by_name = self._invocation.arguments(self)
        return self._invocation.hook.function(*positional, **by_name)

    def result(self, returned: Any) -> dict[str, Any]:
        """Returns the result of the call for the server, with the object only if it has changed.

        returned: by the function. Raises WrongResult, and TypeError for what JSON cannot express.
        """
        hook = self._invocation.hook
        result: dict[str, Any] = {}
        match hook.kind:
            case Kind.MUTATE:
                changed = self._document
                if returned is not None or self._unchanged is not None:
                    changed = self._changed(returned)
                encoded = orjson.dumps(changed)
                # Most functions change few objects.
                if encoded != self._before:
                    result["object"] = orjson.Fragment(encoded)
                else:
                    self.is_intact = changed is self._document
            case Kind.VALIDATE:
                if returned is not None:
                    raise WrongResult(
                        f"must return None, and raise Denied to refuse; it returned {type(returned).__name__}"
                    )
            case Kind.RECONCILE:
                result.update(_requeue(returned))
            case Kind.AUTHENTICATE:
                if returned is not None:
                    result["user"] = _user_info(returned)
            case Kind.AUTHORIZE:
                if returned is not None and not isinstance(returned, bool):
                    raise WrongResult(f"must return True, False or None, not {type(returned).__name__}")
                result["allowed"] = returned
            case Kind.LIST:
                result["items"] = _objects(returned)
            case Kind.GET:
                result["object"] = _object_or_none(returned)
            case Kind.CREATE | Kind.UPDATE:
                result["object"] = self._changed(returned)
            case Kind.DELETE:
                if returned is not None:
                    raise WrongResult(f"must return None, not {type(returned).__name__}")
            case Kind.METRIC:
                result["samples"] = samples_of(returned, hook.options["labels"])
            case Kind.HEALTHZ | Kind.WATCH:
                pass
        return self._with_texts(result) if self._warnings or self._annotations else result

    def _changed(self, returned: Any) -> Any:
        """Returns the object that a function has returned, or has changed in place. Raises WrongResult."""
        objects = self._invocation.objects
        if self._unchanged is None or objects is None:
            if returned is None:
                return self._document
            return _object_of(returned, self._document)
        if returned is not None and not objects.is_instance(returned):
            return _object_of(returned, self._document)
        return objects.changed(
            self._document, self._unchanged, self.subject if returned is None else returned
        )

    def denied(self, status: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the result of a call that refuses the request. status: see `Denied.status`."""
        return self._with_texts({"denied": dict(status)})

    def _with_texts(self, result: dict[str, Any]) -> dict[str, Any]:
        if self._warnings:
            result["warnings"] = self._warnings
        if self._annotations:
            result["auditAnnotations"] = self._annotations
        return result


def _user_info(returned: Any) -> dict[str, Any]:
    user = User(returned) if isinstance(returned, str) else returned
    if not isinstance(user, User):
        raise WrongResult(f"must return a User, a name or None, not {type(returned).__name__}")
    lists = [user.groups, *user.extra.values()]
    if not isinstance(user.name, str) or not user.name or not isinstance(user.uid, str):
        raise WrongResult("must return a User with a name")
    if any(isinstance(each, str) or not all(isinstance(text, str) for text in each) for each in lists):
        raise WrongResult("must return a User whose groups and extra have lists of texts")
    extra = {str(key): list(values) for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}


class ConversionCall:
    """One call of a conversion: the function gets many objects, one after the other.

    The call has the `objects` and the `desiredAPIVersion`, as a ConversionReview has. The result has the
    converted `objects`, in the same order.
    """

    kind = Kind.CONVERT
    is_intact = False

    def __init__(self, invocation: Invocation, call: Mapping[str, Any]) -> None:
        self._invocation = invocation
        self._objects, self._desired = call["objects"], call["desiredAPIVersion"]

    def run(self) -> Any:
        """Convert the objects; if the function is async, the result is to be awaited."""
        if self._invocation.mode is Mode.TASK:
            return self._run_async()
        convert, converted = self._invocation.convert, []
        for each in self._objects:
            source = each["apiVersion"]
            try:
                converted.append(self._converted(each, source, convert(each)))
            except BaseException as error:
                error.add_note(_place_of(each))
                raise
        return converted

    async def _run_async(self) -> list[Any]:
        converted = []
        for each in self._objects:
            source = each["apiVersion"]
            try:
                converted.append(self._converted(each, source, await self._invocation.convert(each)))
            except BaseException as error:
                error.add_note(_place_of(each))
                raise
        return converted

    def _converted(self, document: Any, source: str, returned: Any) -> Any:
        found = _object_of(returned, document)
        if found.get("apiVersion") == source:
            found["apiVersion"] = self._desired
        return found

    def result(self, returned: Any) -> dict[str, Any]:
        """Returns the result of the call for the server. returned: by `run`."""
        return {"objects": returned}


HookCall: TypeAlias = Call | ConversionCall


def _object_of(returned: Any, given: Any) -> Any:
    """Returns the object that a function has returned, or has changed in place. Raises WrongResult."""
    found = _object_or_none(returned)
    return given if found is None else found


def _object_or_none(returned: Any) -> dict[str, Any] | None:
    if returned is not None and not isinstance(returned, dict):
        raise WrongResult(f"must return None or an object, not {type(returned).__name__}")
    return returned


def _objects(returned: Any) -> list[Any]:
    if not isinstance(returned, list | tuple):
        raise WrongResult(f"must return a list of objects, not {type(returned).__name__}")
    for index, each in enumerate(returned):
        if not isinstance(each, dict):
            raise WrongResult(f"must return a list of objects; [{index}] is {type(each).__name__}")
    return list(returned)


def _place_of(document: Any) -> str:
    """Returns which object a conversion has failed for, whatever the function has made of it."""
    meta = document.get("metadata") if isinstance(document, dict) else None
    names = (meta.get("namespace"), meta.get("name")) if isinstance(meta, dict) else ()
    return f"object {'/'.join(str(each) for each in names if each)}"


def _requeue(returned: Any) -> dict[str, Any]:
    if returned is None:
        return {}
    seconds = getattr(returned, "total_seconds", lambda: returned)()  # a timedelta
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 10**9:
        raise WrongResult(f"must return None or a number of seconds, not {returned!r}")
    return {"requeueAfterSeconds": seconds}
