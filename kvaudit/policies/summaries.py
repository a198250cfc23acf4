"""Memories that are no K/V rows: segment summaries, recurrent hidden states and two-tier memory (0x00H and 0x0D).

AutoCompressor (arXiv 2305.14788) prepends the summary vectors of all earlier segments as soft prompts and emits kappa
more for each segment. Transformer-XL (arXiv 1901.02860) keeps the newest M hidden states of each layer.
Compressive Transformer (arXiv 1911.05507) keeps M_local of them, and compresses what leaves by a rate c into a second
memory of M_comp slots. The rules of the last two rest on general knowledge of the papers, not on pinned code.

Bytes are payload: no compressor parameters, positional state, workspace or allocator slack.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Span = tuple[int, int]


def accumulated_vectors(segment: int, vectors_per_segment: int) -> int:
    """Return (i - 1) kappa, the summary vectors that exist before segment i, counted from 1."""
    return (segment - 1) * vectors_per_segment


def input_rows(segment: int, vectors_per_segment: int, segment_tokens: int) -> int:
    """Return (i - 1) kappa + m_i + kappa: earlier summaries, the segment's tokens, the learned summary tokens."""
    return accumulated_vectors(segment, vectors_per_segment) + segment_tokens + vectors_per_segment


def causal_pairs(rows: int) -> int:
    """Return the query-key pairs of causal attention over `rows`, each row with itself: what a growing prefix costs."""
    return rows * (rows + 1) // 2


def summary_payload_bytes(batch: int, vectors: int, model_dimension: int, scalar_bytes: int) -> int:
    """Return M_summary = B (i - 1) kappa d_model b for the (i - 1) kappa vectors kept outside the model."""
    return batch * vectors * model_dimension * scalar_bytes


def raw_kv_bytes(layers: int, rows: int, kv_heads: int, head_dimension: int, scalar_bytes: int) -> int:
    """Return M_raw = L W 2 H_kv d_h b of a window of W rows, and of W rows projected from a summary prefix."""
    return layers * rows * 2 * kv_heads * head_dimension * scalar_bytes


def hidden_memory_bytes(layers: int, memory_rows: int, model_dimension: int, scalar_bytes: int) -> int:
    """Return M_hidden = L M d_model b (Transformer-XL)."""
    return layers * memory_rows * model_dimension * scalar_bytes


def dual_activation_bytes(
    layers: int, local_rows: int, compressed_rows: int, model_dimension: int, scalar_bytes: int
) -> int:
    """Return M_dual = L (M_local + M_comp) d_model b (Compressive Transformer)."""
    return layers * (local_rows + compressed_rows) * model_dimension * scalar_bytes


def transformer_xl_memory(segment_tokens: Sequence[int], memory_rows: int) -> Span:
    """Return the half-open span of positions whose hidden states remain after the segments: the newest M."""
    end = sum(segment_tokens)
    return max(0, end - memory_rows), end


@dataclass(frozen=True, slots=True)
class TwoTierMemory:
    """What a Compressive Transformer remembers, as half-open spans of positions, oldest first.

    `local` is remembered state by state. Each slot of `compressed` stands for the positions of its span together.
    `lost_positions` counts those that are in neither.
    """

    local: Span
    compressed: tuple[Span, ...]
    lost_positions: int


def compressive_memory_floor(
    segment_tokens: Sequence[int], local_rows: int, compressed_rows: int, rate: int
) -> TwoTierMemory:
    """Return the memory after the segments.

    The n states that leave the local memory with a segment give floor(n / c) slots, oldest states first; the n mod c
    newest of them fill no slot and are lost. Of more than M_comp slots the oldest are dropped.
    """
    begin = end = 0
    slots: list[Span] = []
    for tokens in segment_tokens:
        end += tokens
        leaving = max(0, end - begin - local_rows)
        # Only the newest M_comp groups can stay, however long the segment is.
        groups = leaving // rate
        newest = range(max(0, groups - compressed_rows), groups)
        slots.extend((begin + group * rate, begin + (group + 1) * rate) for group in newest)
        slots = slots[max(0, len(slots) - compressed_rows) :]
        begin += leaving
    remembered = (end - begin) + rate * len(slots)
    return TwoTierMemory((begin, end), tuple(slots), end - remembered)
