"""Claims that do not hold: CrossHair has to say so."""

from __future__ import annotations

from pinproof.proofs.claims import is_tree, tree  # noqa: F401 (the contract below uses it)


def no_path_is_longer_than_two(parents: list[int]) -> bool:
    """
    pre: is_tree(parents, 2)
    post: _
    """
    state = tree(parents)
    return all(len(list(state.path(node))) <= 2 for node in range(len(parents) + 1))


def nothing_fits(number: int) -> bool:
    """
    pre: number < 0 < number
    post: _
    """
    return False
