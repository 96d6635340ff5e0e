"""Bad and odd inputs to every public entry point: each is right, and checked, or refused in the library's own words.

python -O tests/reliability/inputs.py            # every case, one line for each that is wrong, and the counts
python -O tests/reliability/inputs.py predict    # the cases whose name contains this
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from reliability.cases import Case, judge
from reliability.data_cases import mask_cases, score_cases, view_cases
from reliability.file_cases import command_cases, file_cases
from reliability.model_cases import prediction_cases, setting_cases


def all_cases() -> list[Case]:
    """Return every case."""
    sources = (view_cases, mask_cases, score_cases, setting_cases, prediction_cases, file_cases, command_cases)
    return [case for source in sources for case in source()]


def main(part: str = "") -> int:
    """Judge the cases whose name contains a part, in this process."""
    counts: Counter[str] = Counter()
    for case in all_cases():
        if part in case.name:
            with tempfile.TemporaryDirectory() as folder:
                answer = judge(case, Path(folder))
            counts[answer if answer in ("right", "refused") else "wrong"] += 1
            if answer not in ("right", "refused"):
                sys.stderr.write(f"{case.name}: {answer}\n")
    sys.stdout.write(json.dumps(counts) + "\n")
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
