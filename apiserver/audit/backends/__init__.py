"""The destinations of audit events: a file, and a webhook.

    options      the options of both, set by flags
    fan_out      sends each event to all backends of a server
    batches      the buffer of a backend in batch mode, and the times at which batches are sent
    log_backend  writes events to a file, in a thread
    log_file     the file: whole lines, rotated by size, shared by several processes
    rotated      rotated files: their names, compression, and deletion
    webhook_backend  posts events to a server
    dropped_events  counts and logs lost events

Modes, as Kubernetes has them: in `batch` mode a request hands its events over and goes on. They wait in a
buffer that is bounded in events and bytes; events that do not fit are lost. Losses are counted, and logged
once until they end. In `blocking` mode a request waits until its event has been written, and in
`blocking-strict` mode it fails if its first one cannot be. Even then a thread writes, and not the event loop:
all events that arrive while the thread writes are written together next, so that each waits only briefly. The
waiting events of clients that gave up are bounded in bytes, as the buffer is.

A line is written by one call, with the file locked, and is taken back if it could not be written as a whole:
any number of processes (`--workers`, and servers that have nothing to do with each other) share a file. A
process that finds the file renamed or deleted opens it anew: so one process rotates for all, and logrotate
may rotate, too.
"""
