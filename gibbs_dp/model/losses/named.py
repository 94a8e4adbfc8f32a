"""Losses by name, or as objects: what tables and estimators take."""

from __future__ import annotations

from typing import Any

from gibbs_dp._source import losses_of
from gibbs_dp.information.checks import shown
from gibbs_dp.model import losses
from gibbs_dp.model.losses.base import Loss


def as_loss(given: Any, *labels: str) -> Loss:
    """Return a built-in loss by its name, or a loss as it is, if it takes such labels.

    Parameters
    ----------
    given
        A name or a loss.
    labels
        Kinds of labels, as in ``Loss.labels``.

    Returns
    -------
    Loss
        With the settings it has by default, where it was named.

    Raises
    ------
    ValueError
        For another name or object, and for a loss of other labels.

    Examples
    --------
    >>> as_loss("huber", "numbers")
    Huber(delta=1.0)
    """
    names = losses_of(*labels)
    if isinstance(given, str) and given in names:
        loss: Loss = getattr(losses, names[given])()
        return loss
    if isinstance(given, Loss) and given.labels in labels:
        return given
    if isinstance(given, Loss) and given.labels is not None:
        raise ValueError(
            f"loss: the {given.name} loss takes {given.labels}, and here labels are "
            f"{' or '.join(labels)}; use one of {', '.join(names)}."
        )
    raise ValueError(
        f"loss: {shown(given)} is none of {', '.join(names)}; use one, or a loss of your own, of a "
        "class derived from gibbs_dp.losses.LinearLoss."
    )
