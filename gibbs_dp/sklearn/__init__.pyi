from .classifier import GibbsClassifier as GibbsClassifier
from .location import GibbsMean as GibbsMean
from .location import GibbsMedian as GibbsMedian
from .plan import PrivacyLeakWarning as PrivacyLeakWarning
from .plan import RepeatedFitWarning as RepeatedFitWarning
from .regressor import GibbsRegressor as GibbsRegressor
