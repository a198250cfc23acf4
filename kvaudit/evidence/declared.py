"""Running an oracle on a fixture: recompute, then compare with what the fixture declares.

Contracts are judged first. A declared value is compared last, as the report would write it (12 significant digits), so
that a fixture may declare 0.428571428571 for three sevenths.
"""

from collections.abc import Mapping
from typing import Any

from kvaudit.errors import ContractViolation
from kvaudit.evidence import canonical
from kvaudit.model import Diagnostic, Document, Evidence, Loop, pointer


def observe(loop: Loop, fixture: Document) -> Evidence:
    """Return the evidence of a fixture that passed its schema, or raise the first `ContractViolation`."""
    evidence = loop.oracle(fixture)
    _require_equal(canonical.written(fixture["declared"]), declared(evidence), "/declared", loop.drift)
    return evidence


def declared(evidence: Evidence) -> Document:
    """Return the `declared` object that a fixture with this evidence must have, as it is written."""
    ledgers = {row.name: row.value for row in evidence.ledgers}
    document: Document = canonical.written({"results": evidence.results, "ledgers": ledgers})
    return document


def _require_equal(stated: Any, recomputed: Any, at: str, drift: Diagnostic) -> None:
    if isinstance(stated, Mapping) and isinstance(recomputed, Mapping):
        for name in recomputed:
            if name not in stated:
                raise ContractViolation(drift, at, f"expected a declared {name!r}, found none")
            _require_equal(stated[name], recomputed[name], at + pointer(name), drift)
        for name in stated:
            if name not in recomputed:
                raise ContractViolation(drift, at + pointer(name), "declared, but no oracle computes it")
    elif isinstance(stated, list) and isinstance(recomputed, list):
        for index, (one, other) in enumerate(zip(stated, recomputed, strict=False)):
            _require_equal(one, other, at + pointer(index), drift)
        if len(stated) != len(recomputed):
            raise ContractViolation(drift, at, f"recomputed {len(recomputed)} items, declared {len(stated)}")
    elif stated != recomputed or isinstance(stated, bool) != isinstance(recomputed, bool):
        raise ContractViolation(drift, at, f"recomputed {_shown(recomputed)}, declared {_shown(stated)}")


def _shown(value: Any) -> str:
    text = canonical.json_text(value).strip()
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"
