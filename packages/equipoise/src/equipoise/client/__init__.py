"""A member's side of a round, through a service or a shared folder.

`session` offers everything as functions. Of the exchange, it alone sees rows, through `equipoise.party`, and sends only
releases. Nothing here trusts what it receives: receipts, agreements and exports are checked against what the member
knows itself.
"""
