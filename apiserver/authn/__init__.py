"""Authentication: identifies the caller. Each method is a module of its own; a chain tries one after another.

The first authenticator that identifies the caller wins. One that is shown a credential of its kind and does
not accept it ends the chain: a wrong token is 401, never anonymous. Rows O01, O02.
"""
