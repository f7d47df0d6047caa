"""Admission webhooks: other servers that may change or refuse a write.

    admission_reviews  the requests to webhooks and their responses. Pure
    webhook            one webhook of a configuration, ready to be called
    configurations     all webhooks of one kind, from configurations in the watch cache
    plugins            the two plugins of the chain: mutating webhooks one by one, validating ones
    concurrently

`apiserver.webhooks` makes the HTTP calls; a plugin knows only `review_server.ReviewCaller`.

What it guarantees: configurations are read from the watch cache at each write, so a new one counts for the
next write. Types that no webhook names cost nothing: the chain leaves the plugins out.

Source: k8s.io/apiserver, pkg/admission/plugin/webhook.
"""
