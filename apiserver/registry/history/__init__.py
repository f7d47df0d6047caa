"""The history of objects: what each was at any moment, and who changed it.

    authors    makes the notes about the authors of writes, which the store keeps and delivers with them
    recorder   follows the watch cache, and records each change in `storage.history`
    missed_changes    reads from the store what the recorder has missed
    forms      what is recorded of an object: no values of Secrets
    policy     which resources are recorded
    thinning   drops old versions that have changed the status only
    past       reads the objects of a past moment, and the versions of one
    recent_changes    reads the changes of all objects that a user may see
    writes     changes the history beside the recorder
    follower   reads the history that another worker of the server records
    purges     removes changes that must be forgotten
    differences       compares two states of an object
    line_differences  compares the lines of two texts

`endpoints.handlers.history` serves these reads.
"""
