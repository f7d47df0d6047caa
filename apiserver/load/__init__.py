"""Keeps the event loop and the memory of a server available to all while some clients request much.

    size_class        classes of work by the size of its input: small, large or huge
    offload           runs work on the event loop if it is small, else in a lane
    late_import       imports modules in a thread at their first use
    switch_interval   makes threads yield the interpreter to the event loop sooner
    fair_queue        queues on the event loop whose items get turns, by holder or by time
    user_shares       the share that each user may hold of a common pool
    token_bucket      limits how often something happens, in all or for each key
    unread_answers    drops responses that clients do not read in time, or when there are too many
    memory_budget     the memory that the process may have, and how near to it the process is
    memory_keeper     returns free memory to the system
    tracked_objects   counts the objects that the garbage collector knows
    process_memory    the memory of the process and of its container, and the C library's allocator
    collection_pause  pauses garbage collection while many lasting objects are made

All requests share one event loop. Each scheduler decides in one place which item is next, and has a bound:

    what waits                       decided by                  turns           bound
    clients that send                `serving.tls_transport`     by sender       READS_PER_ROUND
    TLS handshakes                   `serving.listener`          first come      HANDSHAKE_TURN_S
    bodies being received            `endpoints.body_limits`     by user         bytes of a SharedPool
    requests with their bodies       `endpoints.flowcontrol`     by flow         seats
    the same, without fairness       `endpoints.request_slots`   by user         slots of a SharedPool
    work that is not small           `offload.Lane`              by user         WAITING_MAX
    long lists, and other long work  `storage.event_loop_turns`  fewest turns    TURN_S
    watches with events              `endpoints.watch_stream`    first come      TURN_S
    messages of a client's watches   `console.watches`           first come      MESSAGES_PER_S
    clients that do not read         `unread_answers`            none: dropped   ALL_BYTES_MAX

Turns by sender and by user are those of a `FairQueue`, or shares of a `SharedPool`; first come is a
`TurnQueue`. They are not one scheduler, since each has another input: bytes whose user is not known yet,
requests before their work, work whose size is known, and answers.

A request is refused with 429 before its work begins: if there are too many requests, if too much work waits
for a lane, if its user holds too much of a pool, and if memory is short (`endpoints.load_shedding`, by
`memory_budget`). Work of a request that has begun is never refused.

Why this shape: this package is below all that use it, and knows neither requests nor objects. So decisions by
verb or path (`endpoints.request_slots`, `endpoints.load_shedding`) are not here. Pure are `size_class`,
`token_bucket`, `user_shares` and `memory_budget`, which pure packages use. `offload`,
`fair_queue` and `unread_answers` need a running event loop, `switch_interval` threads; `memory_keeper`,
`process_memory` and `collection_pause` are the process's.
"""
