"""The harness itself: what it says of cables is so."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.netns.process import Client, socket_in
from tests.netns.world import World

pytestmark = pytest.mark.netns
ARRIVES_S = 0.5


class Mail:
    """Datagrams between hosts, by IPv4 and by multicast."""

    def __init__(self, world: World) -> None:
        self.boxes: dict[str, socket.socket] = {}
        for name, host in world.hosts.items():
            box = self.boxes[name] = socket_in(host.namespace, socket.AF_INET, socket.SOCK_DGRAM)
            own = socket.inet_aton(f"10.77.0.{host.number}")
            box.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("239.1.2.3") + own)
            box.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, own)
            box.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
            box.bind(("", 4000))
            box.settimeout(ARRIVES_S)
        self.numbers = {name: host.number for name, host in world.hosts.items()}

    def arrives(self, a: str, b: str) -> bool:
        self.boxes[a].sendto(b"to " + b.encode(), (f"10.77.0.{self.numbers[b]}", 4000))
        return self._read(b, f"to {b}")

    def cast_arrives(self, a: str, b: str) -> bool:
        self.boxes[a].sendto(b"to all", ("239.1.2.3", 4000))
        return self._read(b, "to all")

    def _read(self, name: str, text: str) -> bool:
        try:
            while self.boxes[name].recv(100).decode() != text:
                pass
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        for box in self.boxes.values():
            box.close()


def test_cuts_are_one_way_or_both_ways_for_all_frames_and_heal(make_world: Callable[..., World]) -> None:
    world = make_world("abc")
    mail = Mail(world)
    assert all(mail.arrives(a, b) and mail.cast_arrives(a, b) for a, b in ("ab", "ba", "ac", "cb"))
    world.cut("a", "b", both=False)
    assert not mail.arrives("a", "b") and not mail.cast_arrives("a", "b")
    assert mail.arrives("b", "a") and mail.cast_arrives("b", "a")
    assert mail.arrives("a", "c") and mail.arrives("c", "b")
    world.cut("b", "a")
    assert not mail.arrives("b", "a")
    world.heal()
    assert mail.arrives("a", "b") and mail.arrives("b", "a")
    world.split("a", "bc")
    assert not mail.arrives("a", "c") and not mail.arrives("b", "a") and mail.arrives("b", "c")
    world.heal()
    world.unplug("a")
    assert "NO-CARRIER" in world.host("a").ip("link", "show", "eth0")
    world.heal()
    assert mail.arrives("a", "c")
    mail.close()


def test_nothing_outlives_a_world(make_world: Callable[..., World]) -> None:
    world = make_world("ab")
    process = world.start("a", sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
    assert process.line(10.0) == "up"
    world.close()
    assert process.process.returncode is not None
    assert (
        world.host("a").namespace not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    )


SERVER = """
import http.server, json
class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"path": self.path, "body": json.loads(body)}).encode())
server = http.server.HTTPServer(("127.0.0.1", 0), Echo)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def test_a_server_on_a_hosts_loopback_is_reached_from_here(make_world: Callable[..., World]) -> None:
    world = make_world("a")
    process = world.start("a", sys.executable, "-c", SERVER)
    port = process.line(10.0)
    client = Client()
    client.namespace, client.api = world.host("a").namespace, f"http://127.0.0.1:{port}"
    assert client.post("/x", {"n": 1}) == {"path": "/x", "body": {"n": 1}}
    async with client.session() as session, session.post(f"{client.api}/y", json=2) as answer:
        assert json.loads(await answer.text()) == {"path": "/y", "body": 2}
    process.kill()
    with pytest.raises(OSError):
        client.post("/x", {})


GREETER = """
import asyncio, sys
import grpc.aio
from ringleader.net.addresses import dial_target
async def serve():
    server = grpc.aio.server()
    print(server.add_insecure_port("[::]:7000"), flush=True)
    await server.start()
    await server.wait_for_termination()
async def dial(address):
    async with grpc.aio.insecure_channel(dial_target(address)) as channel:
        await asyncio.wait_for(channel.channel_ready(), 5)
        print("connected", flush=True)
asyncio.run(dial(sys.argv[1]) if len(sys.argv) > 1 else serve())
"""


def test_grpc_dials_a_link_local_address_as_discovery_writes_it(make_world: Callable[..., World]) -> None:
    world = make_world("ab", ipv4=False)
    server = world.start("b", sys.executable, "-c", GREETER)
    assert server.line(20.0) == "7000"
    address = re.findall(r"inet6 (fe80::\S+)/64", world.host("b").ip("-6", "addr", "show", "eth0"))[0]
    world.settle()
    dialler = world.start("a", sys.executable, "-c", GREETER, f"[{address}%eth0]:7000", name="dialler")
    assert dialler.line(15.0) == "connected", dialler.words()
