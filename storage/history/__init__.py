"""The history of a store: what every key was at any revision, and who changed it.

    deltas     encodes a value as the difference from the newer one
    changes    a change, its author, and spans of revisions
    rows       encodes a change as a row of a table
    segment    one file of the history, and `segment_reader` its reads
    segment_list  the segments: opens and adds them, and takes damaged ones out
    damage     tells damaged segments from those that cannot be used at present
    purges     removes changes that must be forgotten
    floors     remembers what was purged, so that it is not recorded again
    digests    makes digests of keys in what is marked
    thinning   drops versions of little interest
    rewrites   encrypts values again after the key has changed
    past_values  what the history says of the past
    value_decoder  decodes the values before changes
    undo_log   appends changes, drops the oldest, and reads states of the past

- *Undo, not copies.* Each change keeps the value before it, as the difference from the value after it. To
  read a state of the past, begin with the newest values and undo the changes since. What does not change
  costs nothing, and the oldest changes are dropped without a trace in the others.
- *Complete, or a gap.* A segment says of which revisions it has all changes. What is between these spans is
  a gap, and states before the last gap cannot be read. A segment that is damaged becomes a gap. A single
  value that cannot be decoded is lost, and the others can be read.
- *Reads delay no write.* They use their own connections, in another thread.
- *Nothing depends on it.* The history may be deleted; it begins again with the next change.

It knows nothing of the API: keys, bytes, revisions and authors are all that it sees, and what must not be
kept, as the values of Secrets, never gets here.
"""
