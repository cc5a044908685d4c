"""One file a step, in order.

A step that only adds what older servers can leave out changes nothing for them. Any other step also
sets `ledger.oldest` to its own revision: servers of earlier ones then stop writing
(`toast.service.ledger.compatibility`).
"""
