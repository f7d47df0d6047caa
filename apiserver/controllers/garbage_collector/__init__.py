"""The garbage collector: what an object owned goes when it is gone, or first, or stays on its own.

    object_owners      what is read of an object: its owners, and how it is being deleted
    graph              who depends on whom
    resources          which resources are looked after, and which one an owner reference means
    remote_owner_resolver  what has become of owners that other servers have
    rules              what is to become of an object, by what has become of its owners
    graph_builder      keeps the graph up to date, and says whom to look at
    collector          deletes dependents, and finishes foreground deletions
    orphaning          releases the dependents of objects that are to leave them
    controller         runs them

What they guarantee: nothing is deleted that has an owner. That an owner is absent, the store itself is asked
once; each deletion is of the very version of an object that was judged, so that whoever gives it another
owner meanwhile saves it. An owner that orphans its dependents goes only when the graph has all that named it
when its deletion began, and when each object can be read that may name it. An object of which nobody can tell
whether its owner exists, because the owner's kind is not served, or another server has it that cannot be
reached, stays. Such servers are asked every half a minute: there is no watch of what they have. What they
have is theirs to finish: the collector takes no finalizer from it, and it is no dependent of anything.

Why this shape: it is kube-controller-manager's, with one difference. There owners are known by their uids,
and it takes care to find out when a reference has the uid of one object and the name of another. Here an
owner is the place where it would be stored, together with its uid, so that such a reference is just one to
nothing.

All that it knows can be had from the watch cache again: nothing is stored, and after a start, or a lost
watch, all owners are looked at once. Who acts twice, or beside another server that does the same, does no
harm.
Source: kubernetes, pkg/controller/garbagecollector.
"""
