"""API aggregation: serves group versions of other API servers through this server.

An APIService with a service names the server of a version. Requests for it are forwarded there, and its
resources appear in discovery and OpenAPI, as if it was served here.

    remote_versions     the versions of other servers, and their availability
    extension_client    calls extension servers, within bounds of time and size
    availability        checks them, and writes the condition Available
    service_poller      downloads their documents after each change, and every minute
    discovery           their discovery documents, which are merged
    resource_lists      reads their lists of resources
    openapi_v2          their OpenAPI v2, which is merged into this server's
    namespaces          deletes their objects in namespaces that are being deleted
    owners              finds their owners of objects for the garbage collector
    identity_headers    names the user to an extension server

What it guarantees: resources that this server serves itself are served here, whatever APIServices say. An
unreachable, slow or hostile extension server fails its own versions, and nothing else: neither the start nor
/readyz waits for it, only requests for its resources, and no more is read from it than the bounds allow.

Why this shape: every server on a store checks for itself, and forwards by its own result: another server may
reach the extension server by another way. The condition that all write is for people; a server that has just
started also begins with it.

Left out: `--enable-aggregator-routing` makes no difference: there is no
cluster network here, so that requests always go to endpoints. Source: k8s.io/kube-aggregator.
"""
