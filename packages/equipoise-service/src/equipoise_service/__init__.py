"""The mediator as a service: accounts, rounds, submissions, settlements, pages.

`rules/` says what may happen and who may make it happen, and knows no HTTP; `web/` (API and pages) knows HTTP and
no rules; `jobs/` settles rounds in the background. Everything durable is in one database, `db/`.
"""
