"""Objects in the memory of this process, and what a real server says no with."""

from __future__ import annotations

import sys

import pytest

from jobrun.checkpoint.stores.bucket import PIECE_BYTES, Bucket, summarize_error
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.object_url import parse_object_url
from tests.support.s3 import VARIABLES, TroubledWay, serving


@pytest.fixture
def bucket(tmp_path):
    return Bucket(parse_object_url(f"memory://{tmp_path.name}/some/where"))


def test_put_new_never_replaces_an_object(bucket):
    assert bucket.put_new("a/b", b"first")
    assert not bucket.put_new("a/b", b"second")

    assert bucket.read("a/b", 100) == b"first"


def test_missing_object_is_none(bucket):
    assert bucket.read("no", 100) is None
    assert bucket.size_bytes("no") is None
    assert bucket.made_at("no") == 0.0
    with pytest.raises(FileNotFoundError):
        list(bucket.pieces("no"))


def test_names_are_below_the_prefix_only(bucket, tmp_path):
    other_prefix = Bucket(parse_object_url(f"memory://{tmp_path.name}/some"))
    other_prefix.put_new("elsewhere/x", b"1")
    bucket.put_new("a/b", b"22")
    bucket.put_new("c", b"333")

    assert bucket.list() == {"a/b": 2, "c": 3}
    assert bucket.list("a") == {"a/b": 2}
    assert bucket.folders() == ("a",)
    assert other_prefix.list("where") == {"where/a/b": 2, "where/c": 3}


def test_much_is_sent_and_read_in_pieces(bucket):
    pieces = [bytes([number]) * (PIECE_BYTES // 2 + number) for number in range(5)]

    bucket.put("big", iter(pieces), sum(map(len, pieces)))

    assert b"".join(bucket.pieces("big")) == b"".join(pieces)


@pytest.mark.parametrize("size_bytes", [10, PIECE_BYTES + 10])
def test_error_in_the_content_is_raised_and_no_object_appears(bucket, size_bytes):
    def content():
        yield b"x"
        raise KeyError("damaged")

    with pytest.raises(KeyError, match="damaged"):
        bucket.put("half", content(), size_bytes)

    assert bucket.list() == {}


def test_long_object_is_read_in_pieces(bucket):
    bucket.put_new("long", b"x" * 11)

    with pytest.raises(EnvironmentFaultError, match="11 bytes"):
        bucket.read("long", 10)


def test_objects_are_deleted_and_copied(bucket):
    bucket.put_new("a", b"1")
    bucket.copy("a", "d/a")
    bucket.delete(["a", "gone"])

    assert bucket.list() == {"d/a": 1}


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(EnvironmentFaultError, match="E330") as caught:
        Bucket(parse_object_url("s3://b/x"))

    assert "jobrun[obstore]" in caught.value.faults[0].mend


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Generic S3 error: Error performing PUT http://h/b/k in 1ms - Server returned non-2xx "
         "status code: 404 Not Found: <Error><Code>NoSuchBucket</Code><Message>There is none."
         "</Message></Error>\n\nDebug source:\nNotFound {}", "NoSuchBucket: There is none"),
        ("Error performing HEAD http://h/b/k in 2ms - Server returned non-2xx status code: "
         "503 Service Unavailable: ", "it answers 503 Service Unavailable"),
        ("Generic S3 error: Error performing PUT http://h/b/k in 5ms, after 3 retries - HTTP "
         "error: error sending request\n\nDebug source:\nx", "it does not answer"),
        ("Generic MicrosoftAzure error: Error performing PUT http://h/b in 1ms - Server returned "
         "non-2xx status code: 400 Bad Request: <Error><Code>InvalidResourceName</Code><Message>"
         "The name\nis not allowed.\nRequestId:x\nTime:y</Message></Error>",
         "InvalidResourceName: The name is not allowed"),
        ("", "Exception"),
    ],
)  # fmt: skip
def test_store_error_is_one_short_line(text, words):
    assert summarize_error(Exception(text)) == words


@pytest.mark.long
def test_s3_protocol_of_a_server_works(monkeypatch):
    with serving() as server:
        server.make_bucket("there")
        for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": server.url}.items():
            monkeypatch.setenv(name, value)
        bucket = Bucket(parse_object_url("s3://there/x"))
        assert bucket.put_new("a", b"1")
        assert not bucket.put_new("a", b"2")
        assert bucket.read("b", 10) is None
        with pytest.raises(EnvironmentFaultError, match=r"E336.*NoSuchBucket") as caught:
            Bucket(parse_object_url("s3://not-there/x")).put_new("a", b"1")
        assert "make 'not-there'" in caught.value.faults[0].mend

        way = TroubledWay(server)
        monkeypatch.setenv("AWS_ENDPOINT_URL", way.url)
        way.trouble = lambda method, path: "403"
        with pytest.raises(EnvironmentFaultError, match=r"E336.*"):
            Bucket(parse_object_url("s3://there/x")).put_new("c", b"1")
        for status in ("400", "404", "405"):
            way.trouble = lambda method, path, status=status: status
            with pytest.raises(EnvironmentFaultError, match=r"E336"):
                Bucket(parse_object_url("s3://there/x")).put_new("c", b"1")
        way.close()
    with pytest.raises(EnvironmentFaultError, match=r"E331.*does not answer"):
        bucket.put_new("d", b"1")
