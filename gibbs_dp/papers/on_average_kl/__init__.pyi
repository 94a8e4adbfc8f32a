from . import counterexamples as counterexamples
