"""Access control: identifies the user of a request (`authn`), and decides what the user may do (`authz`).

The two packages are independent; their interface is `meta.vocabulary.UserInfo`.
"""
