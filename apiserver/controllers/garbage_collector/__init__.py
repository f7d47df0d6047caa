"""The garbage collector, which deletes dependents of deleted objects, or orphans them.

    object_owners      reads the owners of an object, and how it is being deleted
    graph              the dependents of each owner
    resources          the collected resources, and the resource of an owner reference
    remote_owner_resolver  the states of owners on other servers
    rules              decides about an object by the states of its owners
    graph_builder      keeps the graph up to date, and finds the objects to check
    collector          deletes dependents, and finishes foreground deletions
    orphaning          releases the dependents of objects that orphan them
    controller         runs them

What they guarantee: no object with an owner is deleted. The absence of an owner is verified once in the store
itself; each deletion is of exactly the checked version of an object, so that a concurrent change of its
owners saves it. An owner that orphans its dependents is removed only when the graph has all objects that
named it when its deletion began, and when each object that may name it is readable. An object whose owner may
or may not exist, because the owner's kind is not served, or is on an unreachable server, is kept. Such
servers are polled every half minute, as their objects are not watched. Their objects are finished by them:
the collector removes no finalizer from these, and they are not dependents here.

Why this shape: it is kube-controller-manager's, with one difference. There owners are identified by uid, and
a reference with the uid of one object and the name of another needs special care. Here an owner is identified
by the key where it would be stored, together with its uid, so that such a reference simply points to nothing.

All its state can be rebuilt from the watch cache: nothing is stored, and after a start, or a lost watch, all
owners are checked once. Repeated actions, also by several servers, do no harm.
Source: kubernetes, pkg/controller/garbagecollector.
"""
