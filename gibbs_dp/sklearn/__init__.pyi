from .classifier import GibbsClassifier as GibbsClassifier
from .leaks import PrivacyLeakWarning as PrivacyLeakWarning
from .leaks import RepeatedFitWarning as RepeatedFitWarning
from .location import GibbsMean as GibbsMean
from .location import GibbsMedian as GibbsMedian
from .regressor import GibbsRegressor as GibbsRegressor
