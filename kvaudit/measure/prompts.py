"""Prompts to measure on: a JSONL file, one object a line, and what becomes of it in tokens.

    {"id": "a", "text": "...", "continuation": "...",
     "references": [{"id": "near", "question": "...", "answer": " 4817", "evidence": "the number is 4817"}]}

`text` is the context. `continuation` is what follows it; left out, it is what the full cache generates greedily. A
reference is something said in the text that is asked for later; how far back it lies is counted in tokens from the end
of the evidence to the end of the compressed prompt. A text is taken as it stands: a chat template is written out in it.

Text and question are split into tokens apart, so that the tokens are the same wherever the question is. With the
question *inside*, each reference is a prompt of its own, for its question is compressed with it. With the question
*outside*, the text alone is compressed, and every question is asked of the same cache.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvaudit.errors import FileDefect
from kvaudit.evidence import schema, strict_json
from kvaudit.measure.outcomes import PROMPT, RUNTIME_INADMISSIBLE, Stopped

SCHEMA = "kvaudit.prompt/1"
INSIDE, OUTSIDE = "inside_compressed_prompt", "outside_compressed_prompt"
QUESTION_PLACES = (INSIDE, OUTSIDE)


@dataclass(frozen=True, slots=True)
class DelayedReference:
    """What is asked of the cache after the prompt: tokens that are fed, then the answer whose probability is taken.

    Distances are in tokens back from the end of the compressed prompt; None where nobody declared one, or where no
    evidence is marked. `evidence` is the half-open span of its positions in the prompt.
    """

    id: str
    fed_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    declared_distance: int | None
    observed_distance: int | None
    evidence: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt in tokens, with what follows it; no continuation means the greedy one of the full cache."""

    id: str
    prompt_ids: tuple[int, ...]
    continuation_ids: tuple[int, ...] | None
    references: tuple[DelayedReference, ...]


def parse(data: bytes) -> tuple[Mapping[str, Any], ...]:
    """Return the prompts of a JSONL file, or raise `FileDefect` with the line of the first bad one."""
    prompts: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            document = strict_json.parse_json(line)
            schema.check(SCHEMA, document)
        except FileDefect as defect:
            raise FileDefect(defect.diagnostic, defect.pointer, defect.message, number) from None
        assert isinstance(document, dict)
        if document["id"] in prompts:
            raise FileDefect(schema.MISMATCH, "/id", f"the id {document['id']!r} is used twice", number)
        prompts[document["id"]] = document
    if not prompts:
        raise FileDefect(schema.MISMATCH, "", "expected at least one prompt")
    return tuple(prompts.values())


def cases(prompts: Sequence[Mapping[str, Any]], tokenizer: Any, place: str, decode_tokens: int) -> tuple[Case, ...]:
    """Return the cases that prompts amount to with the question in `place`, or raise `Stopped`."""
    return tuple(case for prompt in prompts for case in _cases(prompt, tokenizer, place, decode_tokens))


def _cases(prompt: Mapping[str, Any], tokenizer: Any, place: str, decode_tokens: int) -> Iterator[Case]:
    text_ids = _ids(tokenizer, prompt["text"], special=True)
    continuation = None
    if "continuation" in prompt:
        continuation = _ids(tokenizer, prompt["continuation"])[: decode_tokens + 1]
        if len(continuation) <= decode_tokens:
            raise _unusable(
                prompt["id"], f"the continuation has {len(continuation)} tokens, and {decode_tokens + 1} are needed"
            )
    references = prompt.get("references", ())
    if place == OUTSIDE or not references:
        asked = tuple(_reference(prompt, each, tokenizer, len(text_ids), place) for each in references)
        yield Case(prompt["id"], text_ids, continuation, asked)
        return
    for each in references:
        question = _ids(tokenizer, each.get("question", ""))
        ids = text_ids + question
        # A continuation of the text does not continue the question.
        after = continuation if not question else None
        yield Case(f"{prompt['id']}/{each['id']}", ids, after, (_reference(prompt, each, tokenizer, len(ids), place),))


def _reference(
    prompt: Mapping[str, Any], stated: Mapping[str, Any], tokenizer: Any, compressed_rows: int, place: str
) -> DelayedReference:
    question = _ids(tokenizer, stated.get("question", "")) if place == OUTSIDE else ()
    answer = _ids(tokenizer, stated["answer"])
    if not answer:
        raise _unusable(prompt["id"], f"the answer of {stated['id']} has no tokens")
    span = _span(prompt, stated["evidence"], tokenizer) if "evidence" in stated else None
    fed = question + _ids(tokenizer, stated.get("answer_prefix", ""))
    observed = None if span is None else compressed_rows - span[1]
    return DelayedReference(stated["id"], fed, answer, stated.get("distance_tokens"), observed, span)


def _span(prompt: Mapping[str, Any], evidence: str, tokenizer: Any) -> tuple[int, int]:
    """Return the half-open span of token positions of the evidence, which stands exactly once in the text."""
    found = prompt["text"].count(evidence)
    if found != 1:
        raise _unusable(prompt["id"], f"the evidence {evidence!r} stands {found} times in the text, expected once")
    begin = prompt["text"].index(evidence)
    # Counted by splitting the text at both ends, so that no offsets of the tokenizer are needed.
    first, last = (len(_ids(tokenizer, prompt["text"][:end], special=True)) for end in (begin, begin + len(evidence)))
    return min(first, last - 1), last


def _ids(tokenizer: Any, text: str, *, special: bool = False) -> tuple[int, ...]:
    return tuple(tokenizer(text, add_special_tokens=special)["input_ids"]) if text else ()


def _unusable(prompt: str, message: str) -> Stopped:
    return Stopped(RUNTIME_INADMISSIBLE, PROMPT, f"prompt {prompt}: {message}")
