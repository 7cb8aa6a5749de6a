"""Draw the figures of the documentation: `python docs/figures [NAME ...]` writes docs/images."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent


def draw(name: str, folder: Path) -> Path:
    """Run a script of this folder, and save its `figure` in a folder."""
    figure = runpy.run_path(str(HERE / f"{name}.py"))["figure"]
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=160)
    return path


def names() -> list[str]:
    """Return the names of all figures."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem != "__main__")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or names():
        print(draw(chosen, HERE.parent / "images"))
