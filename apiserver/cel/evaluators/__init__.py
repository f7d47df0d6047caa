"""Evaluators: closures that evaluate the parts of an expression. `compiler` puts them together.

An evaluator is a function of a frame (`frames`), which holds the variables and what is left of the budget. It
charges for what depends on values. What a part always costs is returned to the compiler, which adds it up.

    frames          the frame, and how costs are charged
    bindings        variables: those an expression is given, and those it binds
    calls           functions and operators
    comprehensions  the loops that macros make
    equality        `==`, `!=` and `in`
    literals        lists, maps and messages that an expression makes
    logic           `&&`, `||`, `?:`, `or` and `orValue`
    selections      fields and items
"""
