"""Functions of extensions that may change or refuse a write.

    function_rules  the rules that match the writes of a function. Pure
    functions       one function, ready to be called
    answers         the results of functions. Pure
    plugins         the two plugins of the chain: those that mutate one by one, those that validate
                    concurrently

`apiserver.extensions.host` runs the functions.

What it guarantees: a function sees what a webhook would see, and can do what it could. A function that fails,
or whose result is no object of its kind, has changed nothing; its `on_error` decides about the write. Kinds
of writes that no function names cost nothing: the chain leaves the plugins out.
"""
