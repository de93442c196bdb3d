"""`equipoise demo-service`: the mediator as a service, with three scripted hospitals, to look at."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.options import JsonOption
from equipoise.cli.output import echo


def demo_service(
    kind: Annotated[str, typer.Argument(help="regression or classification")] = "regression",
    output: Annotated[Path, typer.Option("--output", "-o", help="New folder for everybody's files.")] = Path(
        "demo-service-out"
    ),
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 8351,
    once: Annotated[bool, typer.Option("--once", help="End when the round is over.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Start a service on this machine, let an operator and three hospitals settle a round, and keep it running.

    Example: equipoise demo-service --output demo-service-out
    """
    import time

    from equipoise.cli.demo.rounds import EXAMPLES, HOSPITALS
    from equipoise.cli.demo.service import OPERATOR, ServiceDemo, serving
    from equipoise.cli.output import claim_folder, print_json
    from equipoise.errors import EquipoiseError

    if kind not in EXAMPLES:
        raise EquipoiseError(f"there is no demo {kind!r}; choose one of {', '.join(EXAMPLES)}")
    claim_folder(output)

    def tell(text: str) -> None:
        echo(text, err=as_json)

    with serving(output.resolve(), port=port) as address:
        tell(f"The service listens at {address.url}; its log is {output / 'server.log'}.")
        demo = ServiceDemo(output.resolve(), address, tell)
        demo.play(kind)
        links = {who: demo.sign_in(who) for who in (OPERATOR, *HOSPITALS)}
        if as_json:
            print_json({"url": address.url, "round": demo.round, "sign_in": links, "folder": str(output)})
        else:
            _show(address.url, demo.round, links, output)
        while not once:
            time.sleep(3600)


def _show(url: str, round_: str, links: dict[str, str], output: Path) -> None:
    echo(f"\nThe dashboard is at {url}/rounds/{round_}. Sign in, once with each link, within ten minutes, as")
    for who, link in links.items():
        echo(f"  {who:8} {link}")
    echo(
        f"\nNew links: equipoise login, in the folder of whoever signs in, for instance {output / 'ana'}.\n"
        "Ctrl-C ends the service; everything stays in its folder."
    )
