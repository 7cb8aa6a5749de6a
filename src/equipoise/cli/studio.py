"""`equipoise studio`: the web application, on this machine alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from equipoise.cli._output import print_json
from equipoise.cli._parsing import COMMON, CommonOptions
from equipoise.core.errors import InputError
from equipoise.studio import serve


@dataclass(frozen=True)
class Studio:
    """Open the studio in the browser: games, logs, networks and runs that one can touch.

    The server answers on this machine alone, and only by the link that is printed. It reads and
    writes below FOLDER. Ctrl-C ends it; commands that it started keep what they have done.

    Examples:
      equipoise studio
      equipoise studio runs --port 8800 --no-browser
    """

    #: Where runs are found, and where dropped files and new runs go.
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path(".")
    #: The port; any free one if it is 0.
    port: int = 0
    #: Open the browser.
    browser: bool = True
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Serve until Ctrl-C."""
        if not 0 <= self.port <= 65535:
            raise InputError("port", "0 to 65535", self.port)

        def tell(studio, end) -> None:
            print_json({"link": studio.link, "folder": str(studio.folder.root)})

        ready = tell if self.common.json else None
        serve(self.folder, port=self.port, browser=self.browser, ready=ready)
        return 0
