"""The mediator as a service: accounts, rounds, submissions, settlements, pages.

`rules/` decides which actions are allowed, and for which roles, without knowing HTTP; `web/` (API and pages) knows HTTP
and contains no rules; `jobs/` settles rounds in the background. All durable state is in one database, `db/`.
"""
