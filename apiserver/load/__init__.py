"""What keeps the event loop and the memory of a server free for all while some clients ask for much.

    size_class        classes of work, by the size of what is worked on: small, large or huge
    offload           runs work on the event loop if it is small, else in the lane for its size
    switch_interval   has threads hand the interpreter over to the event loop sooner
    fair_queue        queues on the event loop whose items get turns, by holder or by time
    user_shares       how much each user may hold of what all users share
    unread_answers    drops answers that clients do not take, in time and where there are too many
    memory_budget     the memory that the process may have, and how near to it the process is
    memory_keeper     returns free memory to the system
    process_memory    the memory of the process and of its container, and the C library's allocator
    collection_pause  pauses garbage collection while many objects are made that stay

All requests share one event loop. Each scheduler decides in one place who is next, and has a bound:

    who waits                    decided by                           turns             bound
    clients that send            `serving.tls_transport`              by sender         READS_PER_ROUND
    TLS handshakes               `serving.listener`                   first come        HANDSHAKE_TURN_S
    bodies on their way          `endpoints.body_limits`              by user           bytes of a SharedPool
    requests with their bodies   `flowcontrol`                        by flow           seats
    the same, without fairness   `endpoints.request_slots`            by user           slots of a SharedPool
    work that is not small       `offload.Lane`                       by user           WAITING_MAX
    long work on the loop        `storage.event_loop_turns`, for stores, too     fewest turns      TURN_S
    watches with events          `endpoints.watch_stream`             first come        TURN_S
    clients that do not read     `unread_answers`                     none: dropped     ALL_BYTES_MAX

Turns by sender and by user are those of a `FairQueue`, or shares of a `SharedPool`; first come is a
`TurnQueue`. They are not one scheduler, since each has another input: bytes whose user is not known yet,
requests before their work, work whose size is known, and answers.

A request is refused with 429 before its work begins: where there are too many, where too much waits for a
lane, where its user holds too much of a pool, and where memory is short (`endpoints.load_shedding`, by
`memory_budget`). Work of a request that has begun waits however long.

Why this shape: the package stands below all that has work to be done, and knows neither requests nor objects.
So what decides by verb or path (`endpoints.request_slots`, `endpoints.load_shedding`) is not here. Pure are
`size_class`, `user_shares` and `memory_budget`, which pure packages use. `offload`,
`fair_queue` and `unread_answers` need a running event loop, `switch_interval` threads; `memory_keeper`,
`process_memory` and `collection_pause` are the process's.
"""
