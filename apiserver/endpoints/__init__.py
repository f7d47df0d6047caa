"""HTTP: parses requests, calls their handlers, and writes the responses.

On the way in:

    connection       client connections, their limits and timeouts; accepting and draining
    request_handler  makes one `ApiCall` of each request
    api_call         the record of a request: its user, what it asks for, and its response
    request_info     method, path and query to verb, resource, subresource, namespace and name
    console_paths    the paths of the console, by what requests for them need
    request_log      logs slow requests with where their time went, and samples traces
    middleware       metrics, errors to Status, authentication, deadlines, authorization, slots and seats;
                     further middleware: impersonation, audit_middleware, cors, priority_and_fairness
    calls_under_way  the calls in progress, for deadlines and for log lines about stalls
    priority_and_fairness  makes requests wait for their seats, by their flows; `flowcontrol` decides
    flow_control_configuration  applies FlowSchemas and priority levels to it
    request_slots    how many requests of each user may be in flight, where fairness does not limit them
    authorship       tells the history which request makes a write
    impersonation    `kubectl --as`; impersonation_modes: what each mode of it requires
    confidentiality  keeps Secrets and credentials out of errors and audit events
    audit_middleware records requests, as the audit policy says
    cors             which web pages may use the API
    load_shedding    refuses expensive requests while memory is short
    removal_rehearsal  hides APIs that a later release removes from clients that ask for that
    routes           finds the handler of a path: fixed paths, or the table of served resources
    body_limits      limits the bytes of bodies being received, per user, and their slowness
    bodies           reads a request's body within bounds, and parses it by its media type

On the way out:

    negotiation      Accept and Content-Type to a form
    representation   objects, lists and events in that form
    compression      whether a response is compressed
    response_bodies  bodies that are made slice by slice, on the event loop or in a thread
    responses        writes a response, whole or in slices
    watch_stream     writes a watch: events, bookmarks, its end
    authorization_recheck  ends watches whose users are no longer authorized
    websocket        writes it as messages of a WebSocket, if the client asks for one

Endpoints in this package: `discovery`, `openapi`, `openid`, `health`, `version`, `zpages`, `profiles`,
`debug_flags`, which sets the log level, `deprecated_requests`, which lists the users of deprecated APIs,
`client_requests`, which lists the clients that send the most requests, and `recent_requests`, which lists the
last requests that were slow, refused, or failed. The last three list those of one process
(`worker_identity`).

What it guarantees: a client that is slow, silent or gone costs bounded memory and no time of others (see the
bounds at the top of each module). A response that has begun is finished or cut off, never patched up.

Why this shape: aiohttp's low-level server is used rather than its Application. One catch-all route needs no
router, and a request costs 58 instead of 78 µs of CPU before any of our own work (aiohttp 3.14, TLS, uvloop).
Responses are written past aiohttp for the same reason. The order of the middleware is one tuple, in
`app.http_server.build_http_server`.

`handlers` implements the verbs, and `reverse_proxy` connects requests to other servers: both use this
package, and nothing here uses them. `aggregation` knows which other API servers are available, and what they
serve: routes, discovery and OpenAPI use it, and it uses nothing here. `flowcontrol` does no I/O.
Left out: authorization decisions (`auth`).
"""
