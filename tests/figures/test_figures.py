"""Every figure of the specification is read from the shipped report and compared with an independent recomputation.

`figures.yaml` holds the figures; the modules loop02.py and so on say where the report of a loop has each one.
"""

import json
from pathlib import Path

import pytest
import yaml

from tests.figures import loop02, loop03, loop04, loop05, loop06, loop07, loop08, loop09, loop10, loop11, loop12

ROOT = Path(__file__).parents[2]
TABLE = {row["id"]: row for row in yaml.safe_load((Path(__file__).parent / "figures.yaml").read_text(encoding="utf-8"))}
LOOPS = {
    "loop02_visibility": (2, loop02.FIGURES),
    "loop03_cost": (3, loop03.FIGURES),
    "loop04_static": (4, loop04.FIGURES),
    "loop05_dynamic": (5, loop05.FIGURES),
    "loop06_snapkv": (6, loop06.FIGURES),
    "loop07_allocation": (7, loop07.FIGURES),
    "loop08_representation": (8, loop08.FIGURES),
    "loop09_transaction": (9, loop09.FIGURES),
    "loop10_reconciliation": (10, loop10.FIGURES),
    "loop11_papers": (11, loop11.FIGURES),
    "loop12_publication": (12, loop12.FIGURES),
}


def report(entry):
    return json.loads((ROOT / "reports" / f"{entry}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("entry", "figure"), [(entry, figure) for entry, (_, figures) in LOOPS.items() for figure in figures]
)
def test_report_has_the_figure(entry, figure):
    found = LOOPS[entry][1][figure](report(entry))
    expected = TABLE[figure]["value"]
    assert found == pytest.approx(expected, rel=1e-11) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize("entry", LOOPS)
def test_no_figure_of_the_loop_is_left_out(entry):
    loop, figures = LOOPS[entry]
    assert {row["id"] for row in TABLE.values() if row["loop"] == loop} == set(figures)
