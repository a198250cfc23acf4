"""Protected positions as a rule: the first positions of the sequence and the newest ones."""


def protected_positions(first: int, newest: int, origin: int, frontier: int) -> list[int]:
    """Return the protected positions among the committed ones [origin, origin + frontier), ascending.

    A rule survives the growth of the sequence; a fixed list of positions would not. While fewer positions are
    committed than the rule protects, all of them are protected once.
    """
    end = origin + frontier
    heads = range(origin, min(origin + first, end))
    tails = range(max(origin, end - newest), end)
    return sorted({*heads, *tails})
