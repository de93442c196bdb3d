"""The service's commands, which `equipoise` lists and runs if this distribution is installed."""

from collections.abc import Mapping

from equipoise.cli.app import Command, Group

_SERVE, _OPERATOR, _DEMO = (f"equipoise_service.cli.{module}" for module in ("serve", "operator", "demo"))

COMMANDS: Mapping[str, Command | Group] = {
    "serve": Command(_SERVE, "Run a service: parties submit, the operator settles, everyone sees what they may."),
    "worker": Command(_SERVE, "Work for a service: take the settlements that were started, and compute them."),
    "operator": Group(
        "Run a service's rounds: approve members, create, settle, export, back up.",
        {
            "people": Command(_OPERATOR, "List everybody who asked to join, and what became of it."),
            "approve": Command(_OPERATOR, "Approve who asked to join with the key of this fingerprint."),
            "refuse": Command(_OPERATOR, "Refuse who asked to join with the key of this fingerprint."),
            "clear": Command(
                _OPERATOR,
                "Drop all requests to join that are waiting, as after somebody made hundreds; who is meant asks again.",
            ),
            "revoke": Command(_OPERATOR, "End a member's access at once."),
            "rounds": Command(_OPERATOR, "List all rounds, and who has submitted."),
            "create": Command(_OPERATOR, "Create a round from an agreement, and invite its parties."),
            "invite": Command(_OPERATOR, "Let a party see a round and submit."),
            "start": Command(
                _OPERATOR,
                "Start settling a round with the submissions that are there. A round is settled once, and takes none "
                "after that.",
            ),
            "watch": Command(_OPERATOR, "Wait until a round is settled, and say how far it is."),
            "cancel": Command(_OPERATOR, "Stop settling a round; what was computed is kept for the next start."),
            "close": Command(_OPERATOR, "End an open round without settling it."),
            "export": Command(
                _OPERATOR,
                "Save everything of a round with its evidence, signed by the service; `equipoise verify` checks it.",
            ),
            "noise-secret": Command(
                _OPERATOR,
                "Write the secret of a round's noise into a file for an auditor; on the machine that has the key.",
            ),
            "backup": Command(
                _OPERATOR,
                "Copy a service's database and key, while it runs if need be; on the machine that has them.",
            ),
        },
    ),
    "demo-service": Command(
        _DEMO,
        "Start a service on this machine, let an operator and three hospitals settle a round, and keep it running.",
    ),
}
