"""The verbs: a handler reads one kind of request, has the registry do it, and sends the answer.

    get, list, watch            reads
    create, update, patch       writes of an object: POST, PUT, and PATCH in three patch formats
    apply                       PATCH as server-side apply
    delete, delete_collection   DELETE of an object, and of a collection
    subresources                scale, binding, eviction, token, and those that connect to other servers
    extension_servers           forwards what is for versions that other servers have
    reviews                     SubjectAccessReview and the like: answered, never stored
    virtual_kinds               what subresources and reviews share: kinds that are not stored

What they share:

    decoding                     a body to a document that fits the schema of its resource
    patch_bodies, apply_bodies   the same for patches and applies
    write_requests               a call to the `WriteRequest` that the registry takes
    apply_patcher                an apply merged into the object; applies known to change nothing
    audit_bodies                 adds what clients send to the events of audited requests
    encoders                     the encoder of the form that the client accepts
    long_selectors               turns for those who come with long selectors
    shared_lists                 one body for equal lists that are asked for at the same time

A handler is a function that its maker (`update_handler(…)`) has given its collaborators; `app.handlers` makes
all of them. Read one from top to bottom: options, body, registry, answer. Authentication, authorization, the
limit of requests in flight and the deadline lie behind it, and `call.resource` is what the path leads to.

Errors rise to `endpoints.middleware.errors_to_status`, which makes each a Status. A handler catches only what
it can act on: PUT and apply, for example, create what they do not find.

Left out: rules of objects (registry and catalogue), and everything about sockets (endpoints).
"""
