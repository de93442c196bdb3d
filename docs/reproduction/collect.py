"""Take reproduced results into the documentation: numbers and verdicts as they are, pictures with fewer colours.

    python docs/reproduction/collect.py FOLDER...

Results of several folders (machines) come together here; later folders win. The page's generated part is then written
anew.
"""

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

from equipoise_paper.page import page

HERE = Path(__file__).parent
PAGE = HERE.parent / "reproduction.md"
BEGIN, END = "<!-- results: written by collect.py -->", "<!-- end of results -->"
COLOURS = 32


def collect(folder: Path) -> None:
    """Copy what a folder holds."""
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        pictures = [picture for picture in record["pictures"] if picture.endswith(".png")]
        tables = [record["numbers"], *([record["runs"]] if record["runs"] else [])]
        if not all((folder / name).is_file() for name in (*tables, *pictures)):
            continue  # carried along from elsewhere
        for name in tables:
            shutil.copy(folder / name, HERE)
        for name in pictures:
            with Image.open(folder / name) as picture:
                picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(HERE / name, optimize=True)
        text = json.dumps({**record, "pictures": pictures}, indent=1, ensure_ascii=False)
        (HERE / path.name).write_text(text + "\n", encoding="utf-8")


def updated(text: str) -> str:
    """The page with its generated part as the results here say."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{page(HERE, 'reproduction/')}\n{END}{after}"


def main() -> None:
    """Collect all folders and rewrite the page."""
    for folder in map(Path, sys.argv[1:]):
        collect(folder)
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
