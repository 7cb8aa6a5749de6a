"""`equipoise studio`: serve the web application on this machine only."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from equipoise.cli._output import print_json
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Studio:
    """Open the studio, a local web application for games, logs, networks and runs.

    The server is reachable only from this machine and only through the printed link. It reads and
    writes files below FOLDER. Ctrl-C stops the server; commands that it started save their
    progress.

    Examples:
      equipoise studio
      equipoise studio runs --port 8800 --no-browser
    """

    #: Folder in which the studio finds runs, and saves dropped files and new runs.
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path(".")

    # -- server

    #: Port of the server; 0 chooses a free port. Default: 8642, or a free port if it is taken.
    port: int | None = None
    #: Open the browser. Use --no-browser to print the link only.
    browser: bool = True
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Serve until Ctrl-C."""
        from equipoise.studio import serve

        if self.port is not None and not 0 <= self.port <= 65535:
            raise InputError("port", "0 to 65535", self.port)

        def tell(studio, end) -> None:
            print_json({"link": studio.link, "folder": str(studio.folder.root)})

        ready = tell if self.common.json else None
        serve(self.folder, port=self.port, browser=self.browser, ready=ready)
        return 0
