"""HTTP: from bytes on a connection to a call of a handler, and from its answer to bytes.

On the way in:

    connection       client connections, their limits and timeouts; accepting and draining
    request_handler  one request to one `ApiCall`
    api_call         the record of a request: who asks for what, and what has been answered
    request_info     method, path and query to verb, resource, subresource, namespace and name
    middleware       metrics, errors to Status, authentication, deadlines, authorization, slots and seats;
                     the others that are middleware, too: impersonation, auditing, cors, priority_and_fairness
    calls_under_way  which calls are being worked on, for deadlines and for lines about stalls
    priority_and_fairness  makes requests wait for their seats, by their flows
    request_slots    how many requests may be in flight, and whose, where fairness does not say it
    impersonation    `kubectl --as`; impersonation_modes: what each mode of it requires
    confidentiality  what errors and audit events do not say about Secrets and credentials
    auditing         records requests, as the audit policy says
    cors             which pages in browsers may use the API
    load_shedding    what is refused while the server is short of memory
    removal_rehearsal  hides what a later release removes from clients that ask for that
    routes           a path to what answers it: fixed paths, or the table of served resources
    body_limits      how many bytes of bodies may be on their way, whose, and how slowly
    bodies           reads a request's body within bounds, and parses it by its media type

On the way out:

    negotiation      Accept and Content-Type to a form
    representation   objects, lists and events in that form
    compression      whether a response is compressed
    response_bodies  bodies that are made slice by slice, on the event loop or in a thread
    responses        writes a response, whole or in slices
    watch_stream     writes a watch: events, bookmarks, its end
    authorization_recheck  ends watches whose users have lost the right to them
    websocket        writes it as messages of a WebSocket, if the client asks for one

What it answers itself: `discovery`, `openapi`, `openid`, `health`, `version`, `zpages`, and who asks for
what goes away (`deprecated_requests`).

What it guarantees: a client that is slow, silent or gone costs bounded memory and no time of others (see the
bounds at the top of each module). A response that has begun is finished or cut off, never patched up.

Why this shape: aiohttp's low-level server is used rather than its Application. One catch-all route needs no
router, and a request costs 58 instead of 78 µs of CPU before any of our own work (aiohttp 3.14, TLS, uvloop).
Responses are written past aiohttp for the same reason. The order of the middleware is one tuple, in
`app.http_server.build_http_server`.

What verbs mean is in `handlers`, and how requests reach other servers in `reverse_proxy`: both use what is
here, and nothing here uses them. Left out: who may do what (`auth`).
"""
