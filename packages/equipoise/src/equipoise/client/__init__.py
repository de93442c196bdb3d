"""A member's side of a round: the same few things to do, whether a service or a shared folder is between the members.

`session` is all of it as functions, and alone sees rows, through `equipoise.party`; what is sent was released before.
Nothing here trusts what it receives: receipts, agreements and exports are checked with what the member knows itself.
"""
