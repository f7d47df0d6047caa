"""API aggregation: group versions that other API servers serve, and that clients find here.

An APIService with a service says which server has a version. Requests for it are forwarded there, and what is
known of it is shown in discovery and OpenAPI, as if it were served here.

    remote_versions     the versions of other servers, and whether they can be reached
    extension_client    asks extension servers, within bounds of time and size
    availability        checks them, and writes the condition Available
    service_poller      asks them for documents after each change, and every minute
    discovery           what they serve, for the merged documents
    resource_lists      reads what they answer
    openapi_v2          their OpenAPI v2, which is merged into this server's
    namespaces          empties namespaces that are being deleted
    owners              tells the garbage collector of owners that they have
    identity_headers    how an extension server is told who asks

What it guarantees: what this server serves itself is served here, whatever APIServices say. An extension
server that is away, slow or hostile fails its own versions, and nothing else: neither the start nor /readyz
waits for it, only who asks it for something, and no more is read from it than the bounds allow.

Why this shape: every server on a store checks for itself, and forwards by what it has found: another may have
another way to the extension server. The condition that all write is for people; a server that has just
started also learns from it what the others know.

Left out: `--enable-aggregator-routing` makes no difference: there is no
cluster network here, so that requests always go to endpoints. Source: k8s.io/kube-aggregator.
"""
