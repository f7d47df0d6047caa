"""Implements the verbs: a handler reads one kind of request, calls the registry, and sends the response.

    get, list, watch            reads
    history                     reads of the past, and of the versions of an object
    history_rewrite             encrypts recorded values again after a key has changed
    history_purges              remove changes from the history
    create, update, patch       writes of an object: POST, PUT, and PATCH in three patch formats
    apply                       PATCH as server-side apply
    delete, delete_collection   DELETE of an object, and of a collection
    subresources                scale, binding, eviction, token, and those that connect to other servers
    extension_servers           forwards requests for versions that extension servers have
    reviews                     SubjectAccessReview and the like: answered, never stored
    virtual_resources           resources whose objects functions of extensions make
    virtual_kinds               kinds that are not stored, of subresources and reviews

What they share:

    decoding                     a body to a document that fits the schema of its resource
    patch_bodies, apply_bodies   the same for patches and applies
    write_requests               a call to the `WriteRequest` that the registry takes
    apply_patcher                an apply merged into the object; applies known to change nothing
    audit_bodies                 adds what clients send to the events of audited requests
    encoders                     the encoder of the form that the client accepts
    long_selectors               makes requests with long selectors take turns
    shared_lists                 one body for equal lists that are asked for at the same time

A handler is a function made by a factory (`update_handler(…)`) that takes its collaborators; `app.handlers`
makes all of them. Read one from top to bottom: options, body, registry, response. Authentication,
authorization, the limit of requests in flight and the deadline come before it, and `call.resource` is the
resource in the path.

Errors rise to `endpoints.middleware.errors_to_status`, which makes each a Status. A handler catches only what
it can act on: PUT and apply, for example, create what they do not find.

Left out: rules of objects (registry and catalogue), and everything about sockets (endpoints).
"""
