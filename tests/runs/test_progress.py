"""The progress line: shown on terminals, silent elsewhere."""

import io

from rich.console import Console

from equipoise.runs import progress


def test_a_terminal_sees_count_rate_and_metrics():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    with progress("solving", total=3, console=console) as bar:
        for _ in range(3):
            bar.advance(gap=0.25)
    shown = screen.getvalue()
    assert "solving" in shown
    assert "3/3" in shown
    assert "gap 0.25" in shown


def test_elsewhere_it_is_silent(capsys):
    assert list(progress("solving").track(range(3))) == [0, 1, 2]
    file = io.StringIO()
    with progress("solving", total=1, console=Console(file=file)) as bar:
        bar.advance()
    assert file.getvalue() == ""
    assert capsys.readouterr() == ("", "")
