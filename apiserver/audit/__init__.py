"""Auditing: records requests by an audit policy, makes audit events, and delivers them.

    policy          the rules of an audit policy: the level of each request, and its omitted stages
    policy_file     reads the policy file
    request_audit   the record of one request, and its events
    event_fields    the fields of events as bytes, cached where many events share them
    summary         the tables of `apiserver audit summary`
    events          an event, ready for the log or a webhook, and truncated if it is too large
    backends        deliver events to a file and a webhook; all other modules are pure

Each request has a chain of events: RequestReceived; ResponseStarted, if it runs long; ResponseComplete, or
Panic. A request that failed authentication has ResponseStarted alone, as in Kubernetes.

Why this shape: an event at level Metadata is two copies of bytes and a few short texts, and no body is parsed
for it. JSON bodies of requests and responses are copied into the event unchanged; others were parsed anyway,
and are encoded as JSON. Most requests have no objects, and no annotations but the decision. Their events are
made just before they are written, from data that does not change any more: a batch of events takes half the
time of the same events made during their requests. So a recorded request costs some microseconds, and any
other only the lookup of its rule, which is cached.

`backends` writes events. `endpoints.audit_middleware` calls it, and decides which requests wait for their
events.

Differences from Kubernetes: `requestObject` is the body as the client sent it, without the defaults that
Kubernetes' decoder adds; an object is left out if it exceeds `request_audit.OBJECT_BYTES_MAX`, or the budget
for all recorded objects, and the event is marked as truncated. Responses of discovery are not recorded.
Source: k8s.io/apiserver, pkg/audit and pkg/apis/audit.
"""
