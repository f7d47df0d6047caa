"""Load: what keeps the event loop and the memory of a server from those who ask for much.

    size_class        how much work there is with something, by its bytes: small, large or huge
    offload           runs work on the event loop if it is small, else in the lane for its size
    switch_interval   has threads that compute hand the interpreter over sooner
    turn_queues       queues on the event loop whose items get turns, by holder or by time
    shared_pool       who may hold how much of what all users share
    unread_answers    drops what clients do not take, in time and where it is too much
    memory_budget     how near the process is to the memory that it may have
    memory_keeper     watches over the memory of the process, and has what is free given back
    process_memory    the memory of the process and of its container, and the C library's allocator
    text_caches       caches of what is known of texts, which can all be emptied
    shared_values     values that are made once for all servers of a process
    collection_pause  has no garbage collected while a server, or its modules, are made

One event loop runs all requests. Which scheduler decides who is next, whose turns it gives, and its bound:

    who waits                    decided by                           turns             bound
    clients that send            `serving.tls_transport`              by sender         READS_PER_ROUND
    TLS handshakes               `serving.listener`                   first come        HANDSHAKE_TURN_S
    bodies on their way          `endpoints.body_limits`              by user           bytes of a SharedPool
    requests with their bodies   `flowcontrol`                        by flow           seats
    the same, without fairness   `endpoints.request_slots`            by user           slots of a SharedPool
    work that is not small       `offload.Lane`                       by user           WAITING_MAX
    long work on the loop        `storage.turns`, for stores, too     fewest turns      TURN_S
    watches with events          `endpoints.watch_stream`             first come        TURN_S
    clients that do not read     `unread_answers`                     none: dropped     ALL_BYTES_MAX

A request is refused with 429 before its work begins: where there are too many, where too much waits for a
lane, where its user holds too much of a pool, and where memory is short (`endpoints.load_shedding`, by
`memory_budget`). Work of a request that has begun waits however long.

Why this shape: the package stands below all that has work to be done, and knows neither requests nor objects.
Pure are `size_class`, `shared_pool`, `memory_budget` and `text_caches`, which pure packages use. `offload`,
`switch_interval` and `unread_answers` need a running event loop or threads; `memory_keeper`, `process_memory`
and `collection_pause` are the process's.
"""
