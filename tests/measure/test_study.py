"""The tables of the shipped study are those of its records, in the order of its plan."""

from pathlib import Path

from kvaudit.measure import plan as plans
from kvaudit.measure import sweep as sweeps
from kvaudit.render import measurements as render
from kvaudit.suite import measurements

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "reports" / "study"


def test_every_record_is_finished_and_the_tables_are_theirs():
    plan = plans.read(ROOT / "fixtures" / "study" / "plan.yaml")
    states = sweeps.planned(plan, FOLDER)
    assert all(done for _, done in states)
    assert {path for path, _ in states} == set(FOLDER.glob("*.json"))
    records, findings = measurements.read(path for path, _ in states)
    assert findings == ()
    assert (FOLDER / "tables.md").read_text() == render.markdown(records, plan.title, plan.does_not_show)
