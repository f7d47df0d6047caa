"""Where audit events go: a file, and a webhook.

    options      what flags say of both
    fan_out      sends each event to all backends of a server
    batches      the buffer of a backend that nobody waits for, and what is sent of it when
    log_backend  writes events to a file, in a thread
    log_file     the file: whole lines, rotated by size, for several processes at once
    rotated      the files that were rotated: their names, which are compressed, which are deleted
    webhook_backend  posts events to a server
    dropped_events  counts what is lost, and says so

Modes, as Kubernetes has them: in `batch` mode a request hands its events over and goes on. They wait in a
buffer that is bounded in events and bytes; what finds no room is lost, which is counted, and said in the log
once until it is over. In `blocking` mode a request waits until its event has been written, and in
`blocking-strict` mode it fails if its first one cannot be. Even then nobody writes on the event loop: all
events that come while the thread writes are written together next, so that waiting costs each little. What
clients who gave up have left waiting is bounded in bytes as the buffer is.

A line is written by one call, with the file locked, and is taken back if it could not be written as a whole:
any number of processes (`--workers`, and servers that have nothing to do with each other) share a file. Who
finds that the file has another name by now, or none, opens it anew: so one of them rotates for all, and
logrotate may, too.
"""
