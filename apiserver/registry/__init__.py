"""What is served, and the rules for each resource around storage calls.

`served_resource` is the one model for built-in types, custom resources and virtual types alike; a set of
them is an immutable `ResourceTable`. `strategy` has the hooks in which resources differ. `store` is the
generic resource: it does what a verb means with hooks, preconditions, finalizers and storage. What becomes of
documents on the way is in `writing` and `deletion`, how they get into the store in `commits`.
`selection` tells which objects a list or a watch is about; `viewed_lists` lists where only what clients see
can tell that; `chunks` has the tokens of lists in parts.
`stored_object` is the form in which objects are kept and sent; `stored_form` makes it of documents, and of it
what clients see. `aside` is where what is large is worked on.
"""
