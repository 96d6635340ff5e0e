"""docs/architecture.md lists every room and every file of the package, and nothing else."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "acova"
PAGE = ROOT / "docs" / "architecture.md"


def rooms() -> dict[str, set[str]]:
    """Return the files of each room, as the table lists them."""
    text = PAGE.read_text()
    lines = text[text.index("## Rooms") : text.index("## Decisions")].splitlines()
    rows = [line.strip("| ").split(" | ", 1) for line in lines if line.startswith("| `")]
    return {room.strip("`/"): set(re.findall(r"`(\w+\.py)`", files)) for room, files in rows}


def test_every_file_has_its_place_in_the_list_of_rooms():
    folders = {path.parent for path in PACKAGE.rglob("*.py")} - {PACKAGE}
    expected = {
        folder.relative_to(PACKAGE).as_posix(): {path.name for path in folder.glob("*.py")} - {"__init__.py"}
        for folder in folders
    }
    assert rooms() == expected


def test_the_command_that_counts(monkeypatch):
    from acova import ACOVA, Training

    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    counting = __import__("architecture")
    counted = {room: number for room, number, _ in counting.rooms(PACKAGE)}
    assert {room: counted[room] - 1 for room in rooms()} == {room: len(files) for room, files in rooms().items()}
    functions, attributes = counting.hooks()
    assert {"build", "phases"} <= set(functions)
    assert "epochs" in attributes
    assert counting.keywords(Training)[0] == "pretrain_epochs"
    assert counting.depth(ACOVA) == 3
    way = counting.way_to_the_first_product(PACKAGE)
    assert 5 < way.package_frames < way.frames < 100
    assert 5 < way.files < sum(counted.values())


def test_files_that_the_page_names_exist():
    text = PAGE.read_text()
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
        assert any((folder / name).is_file() for folder in (PACKAGE, ROOT)), name


def test_the_drawing_has_the_floors_of_the_import_contract():
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = [floor for floor in contracts[0]["layers"] if floor != "__main__"]
    drawn = [line.split("  ")[0] for line in PAGE.read_text().split("```")[1].splitlines() if line]
    assert [{word.strip("/ ").removesuffix(".py") for word in line.split("|")} for line in drawn] == [
        {word.strip() for word in floor.split("|")} for floor in floors
    ]
