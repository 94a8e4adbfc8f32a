from . import bounds as bounds
from . import dependence as dependence
from . import divergences as divergences
