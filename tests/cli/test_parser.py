import pytest

from gibbs_dp._options import Option
from gibbs_dp.cli.output import UsageError
from gibbs_dp.cli.parser import split_name

OPTIONS = (
    Option("gammas", "float", "", is_list=True),
    Option("features", "str", "", is_list=True),
    Option("out", "str", ""),
    Option("json", "flag", ""),
)


@pytest.mark.parametrize(
    "words",
    [
        ["mean", "--gammas", "0.1", "1"],
        ["--gammas", "0.1", "1", "mean"],
        ["--json", "mean", "--gammas", "0.1", "1"],
        ["--out", "mean", "mean"],
        ["--gammas=1", "mean"],
        ["--gammas", "-1", "nan", "1e-3", "mean"],
        ["mean", "--features", "a", "b"],
    ],
)
def test_the_name_is_found_wherever_it_stands(words):
    name, rest = split_name(words, OPTIONS)
    at = len(words) - 1 - words[::-1].index("mean")
    assert name == "mean"
    assert rest == words[:at] + words[at + 1 :]


def test_there_may_be_no_name():
    assert split_name(["--features", "a", "b", "--json"], OPTIONS)[0] is None


def test_two_names_are_refused():
    with pytest.raises(UsageError, match="'b' is unexpected after 'a'"):
        split_name(["a", "--json", "b"], OPTIONS)
