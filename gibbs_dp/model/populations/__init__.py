"""Where datasets and ghost examples come from."""

from gibbs_dp.model.populations.base import HasSample as HasSample
from gibbs_dp.model.populations.base import Population as Population
from gibbs_dp.model.populations.base import Sampler as Sampler
from gibbs_dp.model.populations.base import as_population as as_population
from gibbs_dp.model.populations.laws import Dependent as Dependent
from gibbs_dp.model.populations.laws import Finite as Finite
from gibbs_dp.model.populations.laws import pad as pad
from gibbs_dp.model.populations.predictive import Predictive as Predictive
from gibbs_dp.model.populations.predictive import from_numpyro as from_numpyro
from gibbs_dp.model.populations.table import Table as Table
