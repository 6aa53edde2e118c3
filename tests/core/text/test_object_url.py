from __future__ import annotations

import pytest

from jobrun.core.text.object_url import ObjectUrl, is_object_url, parse_object_url, scheme_of


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("s3://bucket", ("s3", "bucket", "")),
        ("s3://bucket/", ("s3", "bucket", "")),
        ("GS://bucket/a/b/", ("gs", "bucket", "a/b")),
        ("abfss://files@account.dfs.core.windows.net/x",
         ("abfss", "files@account.dfs.core.windows.net", "x")),
    ],
)  # fmt: skip
def test_a_url_has_a_scheme_a_bucket_and_a_prefix(text, parts):
    assert parse_object_url(text) == ObjectUrl(*parts)


@pytest.mark.parametrize("text", ["s3:///x", "s3://b/a//c", "ftp://b/x", "b/x", "s3://k:s@b/x"])
def test_what_is_no_place_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_object_url(text)


def test_a_secret_in_a_url_is_not_repeated():
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - looked at below
        parse_object_url("s3://key:hush@bucket/x")

    assert "hush" not in str(caught.value)


def test_the_text_of_a_url_is_the_url():
    assert str(parse_object_url("s3://b/x/") / "job") == "s3://b/x/job"
    assert str(parse_object_url("s3://b") / "job") == "s3://b/job"


def test_paths_and_other_urls_are_no_object_urls():
    assert [is_object_url(url) for url in ("/a", "a:b", "file:///x", "az://c/x")] == [
        False,
        False,
        False,
        True,
    ]
    assert scheme_of("a/b") == ""
