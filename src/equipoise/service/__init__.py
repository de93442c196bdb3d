"""The mediator as a service: accounts, rounds, submissions, settlements, pages.

Rules live in modules named after what they rule (`people`, `rounds`, `submissions`, …) and know no HTTP; `api/` and
`pages/` know HTTP and no rules. Everything durable is in one database.
"""
