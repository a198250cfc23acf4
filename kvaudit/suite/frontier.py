"""The frontier of a file: a document of `kvaudit.frontier/1`, or the panels of a loop 13 fixture."""

from pathlib import Path

from kvaudit.errors import FileDefect
from kvaudit.evidence import files, schema, strict_json
from kvaudit.evidence.text import Limits
from kvaudit.loops.loop13_spherical import frontier
from kvaudit.loops.loop13_spherical.frontier import Drawn
from kvaudit.model import Finding, pointer
from kvaudit.reconcile.frontier import DOCUMENT_SCHEMA

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
