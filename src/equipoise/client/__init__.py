"""A member's side of a round: the same few things to do, whether a service or a shared folder is between the members.

Nothing here sees rows: what is sent was released before. Nothing here trusts what it receives: receipts, agreements and
exports are checked with what the member knows itself.
"""
