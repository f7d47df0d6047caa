"""What is served, told in OpenAPI: v3 in a document for each group version, v2 in one for all. Row I20.

kubectl reads them to learn what fields mean (`explain`), what the server can check (`create`, `apply`) and
how lists merge. One way leads to all forms:

    schemas     the definitions of kinds, as components of OpenAPI v3
    operations  the paths of a resource and the operations on them
    documents   both together: the document of a group version; and v2, made from those of v3
    gnostic     documents as protobuf messages, which some clients ask for
    publisher   makes documents when they are first asked for, in a thread, and keeps them compressed
    answers     HTTP: negotiation, hashes, conditional requests

What is left out: documents of discovery itself (`/openapi/v3/apis/apps`), which no client is known to read;
enumerations and defaults that only Kubernetes' Go sources know of.
"""

from apiserver.endpoints.openapi.endpoint import OpenApi

__all__ = ["OpenApi"]
