from .classifier import GibbsClassifier as GibbsClassifier
from .leaks import PrivacyLeakWarning as PrivacyLeakWarning
from .leaks import RepeatedFitWarning as RepeatedFitWarning
from .means import GibbsMean as GibbsMean
from .medians import GibbsMedian as GibbsMedian
from .regressor import GibbsRegressor as GibbsRegressor
