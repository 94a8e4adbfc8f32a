"""The four numbers that a closed form answers with."""

from __future__ import annotations

from typing import NamedTuple


class ClosedForm(NamedTuple):
    """On-average KL (replace-one), generalization error, mutual and lautum information.

    Informations are in nats; the generalization error is per example, ``R - Rhat``, unless the
    function says otherwise.
    """

    on_average_kl: float
    generalization_error: float
    mutual_information: float
    lautum_information: float
