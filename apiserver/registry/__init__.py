"""What is served, and the rules for each resource around storage calls.

`served_resource` is the one model for built-in types, custom resources and virtual types alike; a set of
them is an immutable `ResourceTable`. `strategy` has the hooks in which resources differ. `store` is the
generic resource: it does what a verb means with hooks, preconditions, finalizers and storage.
`stored_object` is the form in which objects are kept and sent. `aside` is where
what is large is worked on.
"""
