"""Serves OpenAPI documents of the API: v3 has one for each group version, v2 one for everything (row I20).

kubectl reads them for the descriptions of fields (`explain`), for what the server can validate (`create`,
`apply`) and for how lists merge. All documents are built in the same steps:

    schemas         the definitions of kinds, as components of OpenAPI v3
    operations      the paths of a resource and the operations on them
    documents       both together: the document of a group version; v2 is derived from v3
    remote_parts    merges the v2 documents of extension servers
    gnostic         documents as protobuf messages, for clients that ask for them
    document_cache  builds documents on first use, in a thread, and caches them compressed
    endpoint        HTTP: negotiation, hashes, conditional requests
"""

from apiserver.endpoints.openapi.endpoint import OpenApi

__all__ = ["OpenApi"]
