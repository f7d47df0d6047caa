"""The keys of schema extensions, as `x-kubernetes-list-type`, with the vendor of a deployment."""

from __future__ import annotations

from typing import Final

from apiserver.meta.brand import extension_key

# The vendor whose keys the packaged definitions have.
KUBERNETES_VENDOR: Final = "kubernetes"
_KUBERNETES_PREFIX: Final = extension_key(KUBERNETES_VENDOR, "")


class Extensions:
    """The keys of the extensions that schemas of custom resources may have."""

    __slots__ = (
        "embedded_resource",
        "int_or_string",
        "list_map_keys",
        "list_type",
        "map_type",
        "preserve_unknown_fields",
        "validations",
    )

    def __init__(self, vendor: str) -> None:
        for name in self.__slots__:
            setattr(self, name, extension_key(vendor, name.replace("_", "-")))

    # Set by name above; declared here for the reader and the type checker.
    embedded_resource: str
    int_or_string: str
    list_map_keys: str
    list_type: str
    map_type: str
    preserve_unknown_fields: str
    validations: str


def with_vendor(name: str, vendor: str) -> str:
    """Returns the name of a field with another vendor, if it is an extension of Kubernetes; else
    unchanged.
    """
    if not name.startswith(_KUBERNETES_PREFIX):
        return name
    return extension_key(vendor, name.removeprefix(_KUBERNETES_PREFIX))
