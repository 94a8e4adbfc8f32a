from . import counterexamples as counterexamples
from . import dependent as dependent
from . import identities as identities
from .figure2b import Figure2b as Figure2b
from .figure2b import linear_regression_figure2b as linear_regression_figure2b
from .figure2b import linear_regression_figure2b_exact as linear_regression_figure2b_exact
