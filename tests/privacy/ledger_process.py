"""A light process that charges ledgers: loads its files alone, without JAX.

Each line on stdin is ``PATH EPSILON``; each answer is ``ok NUMBER`` or ``refused``.
"""

import importlib
import pathlib
import sys
import types


def load(path):
    """The package's folders without what their ``__init__`` imports."""
    folder = pathlib.Path(path).parent
    for name, place in (("gibbs_dp", folder.parent), ("gibbs_dp.privacy", folder)):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(place)]
    return importlib.import_module("gibbs_dp.privacy.ledger")


def main():
    ledger = load(sys.argv[1])
    for line in sys.stdin:
        path, epsilon = line.split()
        try:
            number = ledger.Ledger(path).charge(purpose="race", epsilon=float(epsilon))
            answer = f"ok {number}"
        except ledger.BudgetExceededError:
            answer = "refused"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
