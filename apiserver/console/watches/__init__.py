"""Serves /console/watches: many watches over one WebSocket. The protocol: docs/reference/console-watches.md.

Browsers allow a page few connections, and each watch over WebSocket takes one. Here a client has one
WebSocket, and subscribes to watches on it.

    endpoint          accepts the WebSockets, within their bounds
    multiplexer       one WebSocket: its subscriptions, and whether its client is still authenticated
    client_messages   what clients send
    watch_requests    the HTTP request for a subscription
    subscription      one subscription: the request's connection within the process, and what comes from it

Each subscription is a whole request, made on a connection of the same server that has no socket: it is
authenticated, impersonated, audited, queued, authorized, measured, rechecked and ended as any other watch,
and no other part of the server knows of subscriptions. Its answer comes in chunks, one for each event. An
event's bytes are copied once, from the chunk to the message; nothing is decoded.

A client that does not read: the subscriptions write to the WebSocket's connection. While that takes no more,
each subscription that has written is paused, so that its events wait in the queue of its watch, and
`unread_answers` drops the connection, as it does with any other.

Left out: an authorization of the WebSocket itself, which alone reveals nothing. What extension servers send
is not split into events by its chunks: it is split at its line feeds, and decoded to be sure that it is JSON.
A replica that joins does not get a share of these WebSockets: `watch_balance` ends their watches, but their
clients subscribe to them again on the same connection.
"""
