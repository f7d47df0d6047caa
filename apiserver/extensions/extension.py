"""An extension: functions that the server calls, and types that it serves."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import orjson

from apiserver.extensions.conversions import with_conversion
from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.hooks import Hook, Kind, Mode, OnError, Parameters, named
from apiserver.extensions.metric_declarations import metric_options
from apiserver.extensions.parameters import parameters_of
from apiserver.extensions.resource_names import ResourceName
from apiserver.extensions.virtual_resources import VirtualResource, require_different

F = TypeVar("F", bound=Callable[..., Any])

TIMEOUT_S: Final = 1.0
# As of admission webhooks.
TIMEOUT_MAX_S: Final = 30.0
RECONCILE_TIMEOUT_S: Final = 60.0
RECONCILE_TIMEOUT_MAX_S: Final = 3600.0
MEMORY_LIMIT_BYTES: Final = 512 * 1024 * 1024
_OPERATIONS: Final = frozenset({"create", "update", "delete", "connect"})
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# As kubectl takes them: pods, deployments.apps, deployments.v1.apps; and a subresource after a slash.
_RESOURCE: Final = re.compile(r"(\*|[a-z0-9][-a-z0-9]*)(\.[a-z0-9][-.a-z0-9]*|\.\*)?(/(\*|[a-z][-a-z]*))?")


class Extension:
    """Functions that the server calls for requests and objects, and the definitions of types that it serves.

    name: as in metrics, messages and field managers; a DNS label.
    timeout_s: how long each function may take, 0.01 to 30 seconds; decorators can set another time.
    on_error: what happens to a write if a function fails or is late: "fail", "ignore" or "warn"; decorators
        can set another value.
    memory_limit_bytes: how much memory the worker process may allocate; 0 for no limit.
    """

    def __init__(
        self,
        name: str,
        *,
        timeout_s: float = TIMEOUT_S,
        on_error: str = "fail",
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise InvalidExtension(f"the name {name!r} must be a DNS label, such as shop")
        self.name = name
        self.timeout_s = _timeout(timeout_s, TIMEOUT_MAX_S)
        self.on_error = _on_error(on_error)
        self.memory_limit_bytes = memory_limit_bytes
        self.module = sys._getframe(1).f_globals.get("__name__", "")
        self._hooks: list[Hook] = []
        self._definitions: list[Mapping[str, Any]] = []
        self._resources: list[VirtualResource] = []

    @property
    def hooks(self) -> Sequence[Hook]:
        return self._hooks

    @property
    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The CustomResourceDefinitions that the server applies when it starts."""
        return self._definitions

    def crd(self, *versions: type | Mapping[str, Any]) -> None:
        """Serve a type. versions: its classes with the decorator `apiserver.types.crd`, one for each version,
        or one CustomResourceDefinition as a document.

        Raises InvalidExtension, and the errors of `apiserver.types.definition`.
        """
        self._definitions.append(_definition("crd", versions))

    def resource(
        self, version: type | Mapping[str, Any], *, timeout_s: float | None = None
    ) -> VirtualResource:
        """Serve a resource whose objects are not stored. The result has a decorator for each verb:

            stocks = app.resource(Stock)

            @stocks.list
            def list_stocks(namespace): ...

        version: a class with the decorator `apiserver.types.crd`, or a CustomResourceDefinition with one
            version as a document.
        timeout_s: how long each function may take, if not as long as others of the extension.
        Raises InvalidExtension, and the errors of `apiserver.types.definition`.
        """

        def add(kind: Kind, options: Mapping[str, Any], function: F) -> F:
            return self._decorator(kind, options, timeout_s, "fail")(function)

        resource = VirtualResource(_definition("resource", (version,)), add)
        self._resources.append(resource)
        return resource

    # ---- admission

    def mutate(
        self,
        *resources: str,
        on: str | Collection[str] = ("create", "update"),
        where: str = "",
        reinvoke: bool = False,
        inline: bool = False,
        side_effects: bool = False,
        timeout_s: float | None = None,
        on_error: str | None = None,
    ) -> Callable[[F], F]:
        """Call the function before objects are written. It changes the object in place, or returns another
        one; by `Denied` it refuses the write.

        resources: such as "pods", "deployments.apps", "orders.shop.example.com"; "deployments.v1.apps" gets
            objects in this version, whichever the client has used; "pods/status" is a subresource.
        on: "create", "update", "delete", "connect", or several of them.
        where: a CEL expression about `object`, `oldObject`, `request`, as in matchConditions of webhooks.
        reinvoke: call it again if something later has changed the object.
        inline: run it in the server's process. The function must not be async, and cannot be interrupted.
        side_effects: whether it changes anything else than the object. Dry runs are then refused, unless the
            function takes `dry_run` or `request`, and so can leave that out.
        """
        options = {**_admission(resources, on, where), "reinvoke": reinvoke, "sideEffects": side_effects}
        return self._decorator(Kind.MUTATE, options, timeout_s, on_error, inline=inline)

    def validate(
        self,
        *resources: str,
        on: str | Collection[str] = ("create", "update"),
        where: str = "",
        inline: bool = False,
        side_effects: bool = False,
        timeout_s: float | None = None,
        on_error: str | None = None,
    ) -> Callable[[F], F]:
        """Call the function before objects are written, after all changes. By `Denied` it refuses the write.

        The parameters are those of `mutate`.
        """
        options = {**_admission(resources, on, where), "sideEffects": side_effects}
        return self._decorator(Kind.VALIDATE, options, timeout_s, on_error, inline=inline)

    # ---- custom resources

    def convert(
        self, resource: str, source: str, target: str, *, timeout_s: float | None = None
    ) -> Callable[[F], F]:
        """Call the function to convert objects between versions of a custom resource, such as
        `@app.convert("orders.shop.example.com", "v1beta1", "v1")`. It changes the object in place, or returns
        another one. Its metadata stays as it was, except for labels and annotations.

        The server sets the apiVersion, and calls several functions where none converts directly: with
        functions from v1beta1 to v1 and from v1 to v2, objects of v1beta1 are also served in v2. Lists are
        converted in batches, to each of which the time limit applies.
        """
        _require_resource(resource)
        if "." not in resource or not resource.replace(".", "").replace("-", "").isalnum():
            raise InvalidExtension(
                f"convert: the resource {resource!r} must be the name of a CustomResourceDefinition, such as "
                "orders.shop.example.com"
            )
        if source == target:
            raise InvalidExtension(f"convert: both versions of {resource} are {source}")
        options = {"resource": resource, "source": source, "target": target}
        return self._decorator(Kind.CONVERT, options, timeout_s, "fail")

    def reconcile(
        self,
        resource: str,
        *,
        owns: Iterable[str] = (),
        workers: int = 1,
        timeout_s: float = RECONCILE_TIMEOUT_S,
    ) -> Callable[[F], F]:
        """Call the function for each object, and again whenever the object changes, or one that it owns.

        It gets the object as it is at that time. It returns None when nothing is left to do, or a number of
        seconds after which to call it again. If it raises an exception, it is called again with back-off.
        On several servers, only the leader calls it.

        owns: resources whose objects have the reconciled object as their controller.
        workers: how many objects are reconciled at the same time; never the same one twice.
        """
        owned = [owns] if isinstance(owns, str) else list(owns)
        for each in (resource, *owned):
            _require_resource(each)
            if "*" in each or "/" in each:
                raise InvalidExtension(f"reconcile: {each!r} must be one resource, without a subresource")
        if not 1 <= workers <= 64:
            raise InvalidExtension(f"reconcile: workers must be 1 to 64, not {workers}")
        options = {"resource": resource, "owns": owned, "workers": workers}
        timeout_s = _timeout(timeout_s, RECONCILE_TIMEOUT_MAX_S)
        return self._decorator(
            Kind.RECONCILE, options, timeout_s, "fail", timeout_max_s=RECONCILE_TIMEOUT_MAX_S
        )

    # ---- requests, and the server itself

    def authenticate(
        self, *, timeout_s: float | None = None, on_error: str | None = None
    ) -> Callable[[F], F]:
        """Call the function for bearer tokens that no other authenticator knows, with the token.

        It returns the `User` of the token, or the user's name, or None for a token that it does not know. It
        raises `Denied` for one that it knows to be invalid. Users are cached for 10 seconds. If it fails, the
        token is invalid, whatever `on_error` says.
        """
        return self._decorator(Kind.AUTHENTICATE, {}, timeout_s, on_error)

    def authorize(self, *, timeout_s: float | None = None, on_error: str | None = None) -> Callable[[F], F]:
        """Call the function for each request, before the configured authorizers, with its
        `AccessAttributes`. Members of `system:masters` may do everything, and it is not called for them.

        It returns True to allow the request, False to deny it, or None to leave the decision to the others.
        By `Denied` it denies with a reason. If it fails, the request is denied; with another `on_error` than
        "fail" the other authorizers decide.
        """
        return self._decorator(Kind.AUTHORIZE, {}, timeout_s, on_error)

    def healthz(self, *, timeout_s: float | None = None) -> Callable[[F], F]:
        """Call the function for each probe of /readyz, which fails if the function raises an exception. The
        check has the name `extension-NAME-FUNCTION`. The function has no parameter for an object.
        """
        return self._decorator(Kind.HEALTHZ, {}, timeout_s, "fail")

    def metric(
        self,
        name: str,
        *,
        help: str = "",  # noqa: A002  the word of Prometheus
        kind: str = "gauge",
        labels: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Callable[[F], F]:
        """Call the function when /metrics is requested, once a second at most, and export its result.

        It returns a number. With labels, it returns a mapping of numbers by label values, which are tuples if
        there are several labels. If it fails, the metric is left out.

        name: that of the metric, such as shop_orders_open. help: its description, one line. kind: "gauge" or
            "counter".
        """
        return self._decorator(Kind.METRIC, metric_options(name, help, kind, labels), timeout_s, "fail")

    # ---- for the server

    def describe(self) -> dict[str, Any]:
        """Returns the description of the extension for the server, which can be written as JSON. The number
        of a hook is its index.

        Raises InvalidExtension if that is not so, if a definition has no name, if conversion functions do not
        connect all its versions, if a virtual resource lacks a function, or if several health checks or
        metrics have the same name.
        """
        checks = [each.name for each in self._hooks if each.kind is Kind.HEALTHZ]
        if repeated := sorted({each for each in checks if checks.count(each) > 1}):
            raise InvalidExtension(f"healthz: several functions have the name {repeated[0]}")
        metrics = [each.options["metric"] for each in self._hooks if each.kind is Kind.METRIC]
        if repeated := sorted({each for each in metrics if metrics.count(each) > 1}):
            raise InvalidExtension(f"metric: several functions have the metric {repeated[0]}")
        definitions = [with_conversion(each, self.name, self._hooks) for each in self._definitions]
        hooks = [each.describe() for each in self._hooks]
        require_different(self._resources)
        for resource in self._resources:
            resource.require_complete()
        resources = [each.definition for each in self._resources]
        for each in (*definitions, *resources):
            _require_json(each["metadata"]["name"], each)
        for each in hooks:
            _require_json(f"{each['name']} ({each['place']})", each)
        return {"name": self.name, "definitions": definitions, "resources": resources, "hooks": hooks}

    def _decorator(
        self,
        kind: Kind,
        options: Mapping[str, Any],
        timeout_s: float | None,
        on_error: str | None,
        *,
        inline: bool = False,
        timeout_max_s: float = TIMEOUT_MAX_S,
    ) -> Callable[[F], F]:
        def add(function: F) -> F:
            parameters = parameters_of(named(function, yields=kind is Kind.WATCH), kind)
            hook = Hook(
                kind=kind,
                function=function,
                parameters=parameters,
                timeout_s=self.timeout_s if timeout_s is None else _timeout(timeout_s, timeout_max_s),
                on_error=self.on_error if on_error is None else _on_error(on_error),
                inline=inline,
                options=_with_version(options, parameters),
            )
            if hook.inline:
                _require_inline(hook)
            self._hooks.append(hook)
            return function

        return add


def _definition(decorator: str, versions: Sequence[type | Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns the definition of a type. versions: see `Extension.crd`."""
    if len(versions) == 1 and isinstance(versions[0], Mapping):
        if versions[0].get("kind") == "CustomResourceDefinition":
            return versions[0]
    elif all(isinstance(each, type) for each in versions):
        from apiserver.types import definition

        return definition(*(each for each in versions if isinstance(each, type)))
    raise InvalidExtension(f"{decorator} takes a CustomResourceDefinition, or classes with @crd")


def _admission(resources: Sequence[str], on: str | Collection[str], where: str) -> dict[str, Any]:
    if not resources:
        raise InvalidExtension("the decorator needs at least one resource, such as pods or deployments.apps")
    for each in resources:
        _require_resource(each)
    operations = [on] if isinstance(on, str) else sorted(on)
    if not operations or not set(operations) <= _OPERATIONS:
        known = ", ".join(sorted(_OPERATIONS))
        raise InvalidExtension(f"on={on!r} must be some of {known}")
    return {"resources": list(resources), "operations": operations, "where": where}


def _with_version(options: Mapping[str, Any], parameters: Parameters) -> Mapping[str, Any]:
    """Returns options in which resources have the version of the class that a function takes."""
    if parameters.subject_type is None:
        return options
    from apiserver.types.decorators import is_version, version_of

    cls = parameters.subject_type
    if not is_version(cls) or "version" in options:
        return options
    version = version_of(cls)

    def pinned(name: str) -> str:
        found = ResourceName.of(name)
        if found.qualifier != version.names.group:
            return name
        found = found._replace(qualifier=f"{version.name}.{found.qualifier}")
        return f"{found}/{found.subresource}" if found.subresource else str(found)

    if "resource" in options:
        return {**options, "resource": pinned(options["resource"])}
    return {**options, "resources": [pinned(each) for each in options["resources"]]}


def _require_inline(hook: Hook) -> None:
    """Raise InvalidExtension for a function that cannot run in the server's process."""
    where = f"{hook.name} ({hook.place}): a function with inline=True"
    if hook.mode is Mode.TASK:
        raise InvalidExtension(f"{where} must not be async")
    if hook.mode is Mode.THREAD:
        raise InvalidExtension(f"{where} cannot have api")


def _require_json(what: str, document: Mapping[str, Any]) -> None:
    try:
        orjson.dumps(document)
    except TypeError as error:
        raise InvalidExtension(f"{what} cannot be written as JSON: {error}") from None


def _require_resource(name: str) -> None:
    if not isinstance(name, str) or not _RESOURCE.fullmatch(name):
        raise InvalidExtension(
            f"the resource {name!r} must be like pods, deployments.apps or orders.shop.example.com"
        )


def _timeout(timeout_s: float, longest_s: float) -> float:
    if not 0.01 <= timeout_s <= longest_s:
        raise InvalidExtension(f"timeout_s={timeout_s!r} must be 0.01 to {longest_s:g} seconds")
    return float(timeout_s)


def _on_error(text: str) -> OnError:
    try:
        return OnError(text)
    except ValueError:
        raise InvalidExtension(f'on_error={text!r} must be "fail", "ignore" or "warn"') from None
