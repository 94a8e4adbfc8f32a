"""A light process that charges ledgers: loads the file alone, without JAX.

Each line on stdin is ``PATH EPSILON``; each answer is ``ok NUMBER`` or ``refused``.
"""

import importlib.util
import sys


def load(path):
    spec = importlib.util.spec_from_file_location("ledger", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["ledger"] = module
    spec.loader.exec_module(module)
    return module


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
