"""Evaluators: closures that evaluate the parts of an expression. `compiler` puts them together.

An evaluator is a function of a frame (`frames`), which holds the variables and the remaining budget. It
charges costs that depend on values. Constant costs of a part are returned to the compiler, which adds them
up.

    frames          the frame, and the charging of costs
    bindings        variables: those of the environment, and those that the expression binds
    calls           functions and operators
    comprehensions  the loops of macros
    equality        `==`, `!=` and `in`
    literals        lists, maps and messages that an expression makes
    logic           `&&`, `||`, `?:`, `or` and `orValue`
    selections      fields and items
"""
