"""The frontier of a file or folder: a document of `kvaudit.frontier/1`, the panels of a loop 13 fixture, or records."""

from fractions import Fraction
from pathlib import Path

from kvaudit.errors import FileDefect
from kvaudit.evidence import files, schema, strict_json
from kvaudit.evidence.text import Limits
from kvaudit.loops.loop13_spherical import frontier
from kvaudit.loops.loop13_spherical.frontier import Drawn
from kvaudit.model import Finding, pointer
from kvaudit.reconcile import coordinates as systems
from kvaudit.reconcile import measurements
from kvaudit.reconcile.frontier import DOCUMENT_SCHEMA
from kvaudit.suite.measurements import read as read_records

FIXTURE_SCHEMA = "kvaudit.fixture.spherical/1"


def run(path: Path, limits: Limits) -> tuple[tuple[Drawn, ...], tuple[Finding, ...]]:
    """Return the sets of points in a file, each with its frontier or the reason why it has none, and the findings.

    What a fixture publishes of its frontiers is not judged here: `kvaudit check` does that.
    """
    shown = path.as_posix()
    data = b""
    try:
        data = files.read_regular(path, limits)
        document = strict_json.parse_json(data, limits)
        if isinstance(document, dict) and document.get("schema") == FIXTURE_SCHEMA:
            schema.check(FIXTURE_SCHEMA, document)
            section, at = document["frontier"], pointer("frontier")
            sets = tuple(
                frontier.drawn(name, [(at, section), (place, panel)], panel, place)
                for name, panel in section["panels"].items()
                for place in [at + pointer("panels", name)]
            )
        else:
            schema.check(DOCUMENT_SCHEMA, document)
            sets = (frontier.drawn(document["id"], [("", document)], document, ""),)
    except FileDefect as defect:
        return (), schema.findings(shown, defect, data)
    found = (each.defect for each in sets if each.defect is not None)
    return sets, tuple(one for defect in found for one in schema.findings(shown, defect, data))


def run_records(
    folder: Path, quality: str, tolerance: Fraction, limits: Limits
) -> tuple[tuple[Drawn, ...], tuple[Finding, ...]]:
    """Return each cohort of the measurement records in a folder as a set, as `run` does.

    `quality` is one of `measurements.QUALITY_METRICS`; `tolerance` is in its unit. A record without a result is no
    point. A cohort without the dense cache is a finding, as in any document.
    """
    shown = folder.as_posix()
    records, findings = read_records([folder], limits)
    if findings:
        return (), findings
    sets, found = [], []
    for number, cohort in enumerate(measurements.grouped(records).cohorts, start=1):
        if not {quality, *measurements.POINT_METRICS} <= set(cohort.metrics):
            continue
        document = measurements.frontier_document(cohort, f"cohort-{number}", quality, tolerance)
        sets.append(frontier.drawn(document["id"], [("", document)], document, ""))
        defect = sets[-1].defect
        if defect is not None:
            said = "; ".join(f"{key} {systems.to_json(cohort.stated[key])}" for key in cohort.apart)
            place = f"{document['id']}{f' ({said})' if said else ''}"
            found.append(Finding(shown, "", f"{place}: {defect.message}", defect.diagnostic))
    return tuple(sets), tuple(found)
