"""The law of all answers of sparse vector, as the tests compare releases with it."""

import itertools

from gibbs_dp.papers.reusable_holdout.sparse import sparse_probability


def sparse_law(values, *, num_above, threshold_noise, query_noise, is_redrawn=True):
    """Law of the answers of sparse vector on a fixed vector."""
    return {
        answers: sparse_probability(
            values,
            answers,
            threshold_noise=threshold_noise,
            query_noise=query_noise,
            is_redrawn=is_redrawn,
        )
        for answers in _sequences(len(values), num_above)
    }


def _sequences(length, num_above):
    found = []
    for answers in itertools.product((0, 1), repeat=length):
        total, cut = 0, length
        for i, a in enumerate(answers):
            total += a
            if num_above is not None and total == num_above:
                cut = i + 1
                break
        if cut == length or not any(answers[cut:]):  # once per way of stopping
            found.append(answers[:cut])
    return found
