"""No test reaches the network: pytest-socket refuses it."""

import socket

import pytest
from pytest_socket import SocketConnectBlockedError


def test_a_connection_beyond_loopback_is_refused():
    with socket.socket() as client, pytest.raises(SocketConnectBlockedError):
        client.connect(("192.0.2.1", 80))
