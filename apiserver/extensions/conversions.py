"""The conversions of a custom resource: which functions lead from one version to another.

A definition with conversion functions names them in `spec.conversion`, as a webhook at an address that never
exists. The server that runs the extension calls its functions. Another server fails to convert, instead of
serving objects as if their versions differed in name only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from apiserver.extensions.errors import InvalidExtension
from apiserver.extensions.hooks import Hook, Kind

_URL: Final = re.compile(r"https://([a-z0-9-]+)\.extension\.invalid/convert")


class Conversion(NamedTuple):
    """A conversion that one function makes. source, target: versions, as v1beta1."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} to {self.target}"


def conversion_url(extension: str) -> str:
    """Returns the address in definitions whose objects an extension converts."""
    return f"https://{extension}.extension.invalid/convert"


def extension_of(url: str) -> str | None:
    """Returns the extension that an address in a definition names, if it names one."""
    found = _URL.fullmatch(url)
    return None if found is None else found[1]


def shortest_path(
    conversions: Collection[Conversion], source: str, target: str
) -> Sequence[Conversion] | None:
    """Returns the fewest conversions that lead from one version to another; None if there are none."""
    paths: dict[str, tuple[Conversion, ...]] = {source: ()}
    for reached in (queue := [source]):
        if reached == target:
            return paths[target]
        for each in conversions:
            if each.source == reached and each.target not in paths:
                paths[each.target] = (*paths[reached], each)
                queue.append(each.target)
    return None


def with_conversion(
    definition: Mapping[str, Any], extension: str, hooks: Collection[Hook]
) -> Mapping[str, Any]:
    """Returns a definition with its `spec.conversion`, if functions among `hooks` convert its objects.

    Raises InvalidExtension.
    """
    name = _name(definition)
    conversions = _conversions(name, hooks)
    if not conversions:
        return definition
    missing = [str(each) for each in _missing(_versions(definition), conversions)]
    if missing:
        raise InvalidExtension(f"no function converts {name} from {', or from '.join(missing)}")
    webhook = {"clientConfig": {"url": conversion_url(extension)}, "conversionReviewVersions": ["v1"]}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    given = definition["spec"].get("conversion") or {}
    if not isinstance(given, Mapping):
        raise InvalidExtension(f"{name}: spec.conversion is not an object")
    if given.get("strategy", "None") != "None" and given != conversion:
        raise InvalidExtension(f"{name} has conversion functions, and another webhook in spec.conversion")
    return {**definition, "spec": {**definition["spec"], "conversion": conversion}}


def _conversions(definition: str, hooks: Collection[Hook]) -> Collection[Conversion]:
    found: dict[Conversion, Hook] = {}
    for hook in hooks:
        if hook.kind is Kind.CONVERT and hook.options["resource"] == definition:
            conversion = Conversion(hook.options["source"], hook.options["target"])
            if (other := found.setdefault(conversion, hook)) is not hook:
                raise InvalidExtension(
                    f"{other.name} ({other.place}) and {hook.name} ({hook.place}) both convert {definition} "
                    f"from {conversion}"
                )
    return found


def _name(definition: Mapping[str, Any]) -> str:
    metadata = definition.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not name or not isinstance(name, str):
        raise InvalidExtension("a CustomResourceDefinition has no metadata.name")
    return name


def _versions(definition: Mapping[str, Any]) -> Sequence[str]:
    with suppress(KeyError, TypeError):
        names = [each["name"] for each in definition["spec"]["versions"]]
        if all(isinstance(each, str) for each in names):
            return names
    name = definition["metadata"]["name"]
    raise InvalidExtension(
        f"{name} has conversion functions, but spec.versions is not a list of versions with names"
    )


def _missing(versions: Sequence[str], conversions: Collection[Conversion]) -> Iterator[Conversion]:
    for source in versions:
        for target in versions:
            if shortest_path(conversions, source, target) is None:
                yield Conversion(source, target)
