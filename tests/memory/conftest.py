"""A memory of users with a model that learns what they say."""

import pytest
from memory.told_facts import Notes

import pyterrier_ikat as ikat


@pytest.fixture
def notes():
    return Notes()


@pytest.fixture
def memory(tmp_path, notes):
    return ikat.UserMemory(tmp_path / "users.jsonl", notes)
