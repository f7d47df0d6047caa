"""The encodings of documents, and their media types.

orjson parses JSON; that of clients within the limits of `json_text`. `configuration_fields` reads objects in
configuration files.

`wire.cbor` and `wire.yaml` are imported at their first use: most servers never see either, and with their
libraries they take 2 MB.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apiserver.wire import cbor as cbor
    from apiserver.wire import yaml as yaml


def __getattr__(name: str) -> Any:
    if name in ("cbor", "yaml"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
