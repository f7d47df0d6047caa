"""Auditing: what is recorded of each request, the events that are made of it, and where they go.

    policy          the rules of an audit policy: how much of a request is recorded, and without which stages
    policy_file     the file that they come from
    request_audit   what is known of one request, and its events
    event_fields    the fields of events as bytes, remembered where many events have them
    summary         what `apiserver audit summary` tells of events
    events          an event, ready for the log or a webhook, and shortened if it is too large
    backends        the file and the webhook that get them; all else is pure

Each request has a chain of events: RequestReceived; ResponseStarted, if it runs long; ResponseComplete, or
Panic. A request that nobody could be identified for has ResponseStarted alone, as in Kubernetes.

Why this shape: an event at level Metadata is two copies of bytes and a few short texts, and no body is parsed
for it. Bodies that are JSON, the client's and the server's, are put into the event as they are; others were
parsed anyway, and are encoded as JSON. The events of most requests, which have no objects and no annotations
but the decision, are made when they are about to be written: many one after the other take half the time that
each takes amid its request. They are made of what does not change any more. So a request that is recorded
costs some microseconds, and one that is not recorded nothing but the look at its rule, which is remembered.

Who waits for what is written is decided elsewhere: `backends` writes, `endpoints.auditing` asks it to.

Differences from Kubernetes: `requestObject` is what the client has sent, without the defaults that
Kubernetes' decoder adds; an object of more than `request_audit.OBJECT_BYTES_MAX` is left out, or one for
which there is no room while so many are recorded, and the event is marked as truncated. What discovery
answers is not recorded.
Source: k8s.io/apiserver, pkg/audit and pkg/apis/audit.
"""
