from .exact_laws import laplace_noise as laplace_noise
from .exact_laws import no_noise as no_noise
from .exact_laws import noisy_max_law as noisy_max_law
from .exact_laws import released_value_density as released_value_density
from .exact_laws import sparse_law as sparse_law
from .exact_laws import sparse_probability as sparse_probability
from .exact_laws import uniform_noise as uniform_noise
