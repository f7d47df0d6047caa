"""The two words that a deployment may choose, and the names that are made from them.

`group_domain` is the suffix of API group names (`k8s.io` in `rbac.authorization.k8s.io`), `vendor` the
word in media types and schema extensions (`kubernetes` in `application/vnd.kubernetes.protobuf`). So
the same server can serve an API under another brand. Source: spec, Notation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Brand:
    group_domain: str = "k8s.io"
    vendor: str = "kubernetes"

    def group(self, first_part: str) -> str:
        """Returns an API group: `rbac.authorization` -> `rbac.authorization.k8s.io`."""
        return f"{first_part}.{self.group_domain}"

    @cached_property
    def meta_group(self) -> str:
        return self.group("meta")

    @cached_property
    def meta_version(self) -> str:
        """The apiVersion of Table and PartialObjectMetadata."""
        return f"{self.meta_group}/v1"

    @cached_property
    def discovery_group(self) -> str:
        return self.group("apidiscovery")

    @cached_property
    def protobuf_media_type(self) -> str:
        return f"application/vnd.{self.vendor}.protobuf"

    @cached_property
    def initial_events_end(self) -> str:
        """The annotation of the bookmark that ends the initial events of a watch."""
        return f"{self.group_domain}/initial-events-end"

    @cached_property
    def namespace_name_label(self) -> str:
        """The label of a Namespace that holds its name."""
        return f"{self.vendor}.io/metadata.name"

    def extension(self, name: str) -> str:
        """Returns the key of a schema extension: `list-type` -> `x-kubernetes-list-type`."""
        return extension_key(self.vendor, name)


def extension_key(vendor: str, name: str) -> str:
    """Returns the key of a schema extension: `kubernetes`, `list-type` -> `x-kubernetes-list-type`."""
    return f"x-{vendor}-{name}"
