"""Extensions: Python functions that the server calls, and types that it serves.

    app = Extension("shop")

    @app.mutate("orders.shop.example.com", on="create")
    def price(order):
        order["spec"].setdefault("currency", "EUR")

Users import this package in modules that `apiserver --extension MODULE` runs.

    extension   the decorators
    hooks       what they note about functions
    parameters  finds out which arguments their parameters stand for
    arguments   the classes of some of them
    invocation  calls the functions
    typed_objects  makes instances of classes from objects, for functions that take these
    outcomes    makes results and errors of what the functions return and raise
    virtual_resources  the decorators of a resource whose objects functions make
    conversions  which functions convert a custom resource from one version to another
    errors      what functions may raise
    resource_names  the names of resources, as kubectl takes them
    api         the client of the server that functions get, and api_requests, what it sends
    resource_names  the resources that it is asked for, as kubectl names them
    loading     finds an extension by its name
    metric_declarations  the metrics whose values functions return
    event_streams  runs the functions that yield the events of watches
    worker      the process in which the functions run
    frames      the messages between that and the server
    host        the server's side: starts workers, sends calls to them, and replaces those that are late

What it guarantees: a function in a worker can neither stop nor slow down the server. A write that waits for
it is decided in time, by `on_error` if need be.

Without `host`, it imports only the standard library, orjson and words of `meta`, so that workers are small
and start soon.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from apiserver.extensions.api import Api, AsyncApi
    from apiserver.extensions.arguments import AccessAttributes, Request, User
    from apiserver.extensions.errors import ApiError, Conflict, Denied, InvalidExtension, NotFound
    from apiserver.extensions.extension import Extension
    from apiserver.meta.owners import controller_reference

__all__ = [
    "AccessAttributes",
    "Api",
    "ApiError",
    "AsyncApi",
    "Conflict",
    "Denied",
    "Extension",
    "InvalidExtension",
    "NotFound",
    "Request",
    "User",
    "controller_reference",
]

_MODULES: Final = {
    "apiserver.extensions.api": ("Api", "AsyncApi"),
    "apiserver.extensions.arguments": ("AccessAttributes", "Request", "User"),
    "apiserver.extensions.errors": ("ApiError", "Conflict", "Denied", "InvalidExtension", "NotFound"),
    "apiserver.extensions.extension": ("Extension",),
    "apiserver.meta.owners": ("controller_reference",),
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: servers without extensions import only some modules of this package."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
