"""Admission webhooks: other servers that are asked about a write, and may change or refuse it.

    admission_reviews  what a webhook is sent, and what its answer says. Pure
    webhook            one webhook of a configuration, ready to be asked
    configurations     all webhooks of one kind, as the watch cache has their configurations
    plugins            the two plugins of the chain: mutating webhooks in turn, validating ones at once

Who makes the HTTP calls is `apiserver.webhooks`; a plugin knows only `review_server.ReviewCaller`.

What it guarantees: configurations are read from the watch cache at each write, so one that has arrived there
counts for the next write. Types that no webhook names pay nothing: the chain leaves the plugins out.

Source: k8s.io/apiserver, pkg/admission/plugin/webhook.
"""
