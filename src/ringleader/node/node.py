"""Puts the rooms together: one inbox, one loop; the cluster decides, the hands do. Every node runs the same.

async for event in inbox:                           # here
    for effect in member.step(event, clock.now()):  # cluster/member.py decides everything
        perform(effect)                             # node/perform.py does everything
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from ringleader.api.app import ApiServer, check_exposure, make_app, serve
from ringleader.api.cors import check_origin
from ringleader.api.traces import traces_of
from ringleader.cluster import messages as m
from ringleader.cluster.member import Member
from ringleader.cluster.snapshot import ClusterSnapshot
from ringleader.config import CONTROL_PORT, STREAMS_PLANNED, NodeOptions
from ringleader.errors import NodeUnreachable, RingleaderError
from ringleader.models.store import Store
from ringleader.net.addresses import join, normalise
from ringleader.net.advert import Advert
from ringleader.net.control import ControlPort
from ringleader.net.discovery import Discovery
from ringleader.net.door import JoinDoor
from ringleader.net.mesh import Ears, Mesh
from ringleader.net.neighbours import Found, News
from ringleader.net.relay import Relays, RelayService
from ringleader.node import telemetry
from ringleader.node.answer import Desk
from ringleader.node.cards import Cards
from ringleader.node.doorkeeper import Doorkeeper, api_tls
from ringleader.node.draft_model import DraftModel, find_draft_model
from ringleader.node.identity import Came, Identity, identify
from ringleader.node.ingress import Ingress
from ringleader.node.inventory import Inventory
from ringleader.node.library import ShelfLibrary
from ringleader.node.mastership import Mastership
from ringleader.node.perform import Hands
from ringleader.node.probes import MEMORY, Probes, Surroundings
from ringleader.node.relay import RelayDesk
from ringleader.node.response_store import FILE as RESPONSES
from ringleader.node.response_store import SqliteResponses
from ringleader.node.shelf import Entry, Shelf
from ringleader.node.supervisor import SHARD_PROGRAM, Supervisor
from ringleader.node.tokenizing import ShelfTokenizing
from ringleader.node.view import View
from ringleader.node.wording import from_bytes
from ringleader.shard.trace import merge
from ringleader.trust.authority import has_authority
from ringleader.trust.refusals import Refusals
from ringleader.values import NodeId

TICK_S = 0.1
TELEMETRY_TICKS = 20
STOCK_S = 3.0
SLEPT_S = 2.0  # by so much the wall clock ran ahead of the monotonic one: the machine slept
INBOX_MAX = 65_536  # events; the loop takes microseconds for each, so a full inbox is a bug
GOODBYE_S = 0.5  # for the last words to be read; those who read at all do in milliseconds

log = logging.getLogger("ringleader.node")


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a node can be reached: its API's URL, and host:port of its control plane. What its owner is told besides:
    its machine, its cluster's name, how it came into it, and whether it can invite."""

    node: NodeId
    api: str
    control: str
    machine: str
    cluster: str
    came: Came | None
    invites: bool


async def run_node(options: NodeOptions, on_ready: Callable[[Listening], None]) -> None:
    """Run a node until cancelled, then leave nothing behind.

    Raises NodeUnreachable when an address or the state directory is taken, NotTrusted when an invitation is not
    good, and what is wrong with a model given at the start.
    """
    for peer in options.peers:  # what is wrong with one is said before anything is begun
        normalise(peer, CONTROL_PORT)
    store = Store(options.home / "models" if options.home else None)
    async with AsyncExitStack() as stack:
        draft = await asyncio.to_thread(find_draft_model, store, options.draft_model, options.models)
        who = await identify(options, stack)
        await Node(options, who, store, draft).run(on_ready)


class Node:
    """One node, for as long as its process lives."""

    def __init__(self, options: NodeOptions, who: Identity, store: Store, draft: DraftModel | None = None) -> None:
        self._options = options
        self._who = who
        self._inbox: asyncio.Queue[m.Event] = asyncio.Queue(maxsize=INBOX_MAX)
        self._refusals = Refusals()
        self._wish = m.PlanWish(
            context_tokens=options.context,
            streams=STREAMS_PLANNED,
            shards=options.shards,
            layers=options.layers,
            objective=options.objective,
            exclude=options.exclude,
            kv_bits=options.kv_bits,
        )
        self._fitted = _as_it_is if draft is None else draft.wish
        self._shelf = Shelf(store, options.models, options.context)
        self._inventory = Inventory(self._shelf.directories)
        self._holds: tuple[str, ...] | None = None
        self._chip = telemetry.chip()  # on macOS it takes a process to tell
        self._profile: m.NodeProfile
        ears = Ears(
            self._hear, lambda node: self.tell(m.PeerUp(node)), lambda node, why: self.tell(m.PeerDown(node, why))
        )
        self._mesh = Mesh(who.node, who.credentials, ears, self._refusals)
        # A request may go anywhere when the layers that were placed by hand have lost their node.
        self._desk = Desk(
            self._shelf,
            self.tell,
            replace(self._wish, layers=()),
            self._nodes_missing,
            options.loading_wait_s,
            self._fitted,
        )
        self._relays = Relays(self._mesh.channel)
        self._mastership = Mastership(who.node, self._desk, self._relays)
        self._ingress = Ingress(self._mastership)
        kept = options.keep_responses
        self._responses = SqliteResponses(who.state / RESPONSES, count_max=kept) if kept else None
        self._nodes_here = asyncio.Event()  # once set, it stays so: later losses are the cluster's business
        self._discovery: Discovery | None = None
        self._another_told = False  # that there is another cluster

    def _build(self) -> None:
        """What needs the port that was taken."""
        o, who = self._options, self._who
        self._member = Member(
            self._profile,
            who.incarnation,
            who.term,
            idle_unload_s=o.idle_unload_s if o.idle_unload_s else None,
            queue_max=o.queue_max,
        )
        self._supervisor = Supervisor(
            o.name,
            self.tell,
            SHARD_PROGRAM if o.trace is None else (*SHARD_PROGRAM, "--trace", str(o.trace.resolve())),
            credentials=None if who.credentials is None else who.state,
            reached_at=lambda: self._profile.host,
        )
        self._hands = Hands(
            tell=self.tell,
            state=who.state,
            listen_host=o.listen_host,
            credentials=who.credentials,
            shelf=self._shelf,
            supervisor=self._supervisor,
            mesh=self._mesh,
            desk=self._desk,
            mastership=self._mastership,
            wire=o.wire,
            drafts=o.speculation,
        )
        around = Surroundings(self._member)
        self._shelf.elsewhere = Cards(
            who.node, self._shelf.store.root.parent / "cards", self._relays, self._member.reports, around.names
        )
        self._probes = Probes(self._profile.chip, self._relays, around.others, around.busy, around.same)
        self._view = View(o.name, self._member, self._mastership, self._shelf, self._desk.meters, who.credentials)

    def _describe(self, control_port: int) -> m.NodeProfile:
        """This machine as it is now."""
        hosts = _for_others(telemetry.addresses(self._options.listen_host)) or ("127.0.0.1",)
        return m.NodeProfile(
            node=self._who.node,
            name=self._options.name,
            host=hosts[0],
            chip=self._chip,
            memory_total_bytes=telemetry.memory_total_bytes(),
            memory_free_bytes=telemetry.memory_free_bytes(),
            control=tuple(join(host, control_port) for host in hosts),
        )

    def tell(self, event: m.Event) -> None:
        """Put one event into the inbox."""
        self._inbox.put_nowait(event)

    def _hear(self, peer: NodeId, data: bytes) -> None:
        word = from_bytes(data)
        if word is None:
            self._refusals.note(f"node {peer}: it sent what is no word of protocol")
            return
        if isinstance(word, m.Beat):
            for want in word.wants:  # should this node lead, it answers for them
                self._shelf.hear_of(want.costs.model, want.reference)
        self.tell(m.Heard(peer, word))

    # ------------------------------------------------------------ its life

    async def run(self, on_ready: Callable[[Listening], None]) -> None:
        """Serve until cancelled."""
        await asyncio.gather(*(asyncio.to_thread(self._shelf.store.model_id, each) for each in self._options.models))
        async with AsyncExitStack() as stack:
            self._holds = await asyncio.to_thread(self._inventory.digests)
            control_port = await self._listen(stack)  # nobody is answered before what is built right after it
            self._profile = replace(self._describe(control_port), holds=self._holds)
            self._build()
            join_port = await self._open_door(stack)
            api = await self._serve_api()
            stack.callback(self._merge_trace)  # once the shards have ended
            stack.push_async_callback(self._leave, api)
            on_ready(self._listening(api))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._loop(), name="inbox")
                tasks.create_task(self._tick(control_port), name="tick")
                tasks.create_task(self._mesh.watch_revocations(), name="revocations")
                tasks.create_task(self._want_models(), name="start models")
                tasks.create_task(self._probes.run(), name="probes")
                tasks.create_task(self._take_stock(), name="inventory")
                if self._options.mdns:
                    tasks.create_task(self._discover(control_port, join_port), name="discovery")

    def _listening(self, api: ApiServer) -> Listening:
        p, who = self._profile, self._who
        return Listening(
            node=who.node,
            api=api.url,
            control=p.control[0],
            machine=f"{p.chip}, {p.memory_total_bytes / 2**30:.0f} GB",
            cluster="" if who.credentials is None else who.credentials.name,
            came=who.came,
            invites=who.credentials is not None and has_authority(who.state),
        )

    async def _listen(self, stack: AsyncExitStack) -> int:
        o = self._options
        relay_desk = RelayDesk(self._desk.open, self._desk.token_bytes)
        relay = RelayService(relay_desk.answer, self._answer)
        port = ControlPort(self._mesh, relay, self._who.credentials, self._refusals)
        bound = await port.start(o.listen_host, o.control_port)
        stack.push_async_callback(port.close)
        stack.push_async_callback(self._mesh.close)
        return bound

    async def _answer(self, question: bytes) -> bytes:
        probed = self._probes.answer(question)
        return await self._view.answer(question) if probed is None else probed

    async def _open_door(self, stack: AsyncExitStack) -> int | None:
        """On the founder: let in who brings an invitation. Returns the port."""
        credentials, o = self._who.credentials, self._options
        if credentials is None or not has_authority(self._who.state):
            return None
        door = JoinDoor(credentials, lambda: self._profile.control, self._refusals)
        hosts = _for_others(telemetry.addresses(o.listen_host))
        try:
            port = await door.start(o.listen_host, o.join_port, hosts)
        except NodeUnreachable:
            port = await door.start(o.listen_host, 0, hosts)  # invitations name the port
        stack.push_async_callback(door.close)
        return port

    async def _serve_api(self) -> ApiServer:
        o = self._options
        keys = Doorkeeper(self._who.state, o.api_key)
        loopback = check_exposure(o.api_host, keys)
        tls = api_tls(o, self._who.state)
        app = make_app(
            self._ingress,
            self._view,
            self._view,
            tokenizing=ShelfTokenizing(self._shelf),
            library=ShelfLibrary(self._shelf, self._shelf.store, self._view.cards),
            responses=self._responses,
            keys=keys,
            origins=tuple(check_origin(each) for each in o.cors),
            loopback_only=loopback,
            named_finish_reason=o.named_finish,
            aliases=o.aliases,
            traces=traces_of(os.environ),
        )
        try:
            return await serve(app, host=o.api_host, port=o.api_port, tls=tls)
        except OSError as error:
            raise NodeUnreachable(
                f"the API's address {o.api_host}:{o.api_port} cannot be used ({error.strerror or error}): "
                "does a node run here already? Another port: --api-port"
            ) from error

    def _merge_trace(self) -> None:
        if (file := self._options.trace) is not None:
            log.info("%d passes of this node's shards are in %s", merge(file.resolve()), file)

    async def _leave(self, api: ApiServer) -> None:
        """Say goodbye, so that nobody has to wait for our silence; then end what is ours."""
        self._ingress.closing = True
        for effect in self._member.step(m.StopAsked(), time.monotonic()):
            self._hands.perform(effect)
        await self._mesh.farewell(GOODBYE_S)
        self._desk.close()
        await api.close()
        if self._responses is not None:
            await self._responses.close()
        await self._hands.close()

    # ------------------------------------------------------------ its loops

    async def _loop(self) -> None:
        while True:
            event = await self._inbox.get()
            for effect in self._member.step(event, time.monotonic()):
                self._hands.perform(effect)
            if isinstance(event, m.Ticked):
                self._notice()

    def _notice(self) -> None:
        snapshot = self._member.snapshot()
        self._shelf.loaded = {ring.model for ring in snapshot.rings if ring.state == "serving"}
        if _present(snapshot) >= self._options.wait_for:
            self._nodes_here.set()

    def _nodes_missing(self) -> int:
        """How many nodes the operator wants to see before the first model is placed."""
        if self._nodes_here.is_set():
            return 0
        return max(0, self._options.wait_for - _present(self._member.snapshot()))

    async def _tick(self, control_port: int) -> None:
        for peer in self._options.peers:
            self.tell(m.PeerFound((normalise(peer, CONTROL_PORT),)))
        if self._who.peers:  # all of them are addresses of the node that let this one in
            self.tell(m.PeerFound(tuple(normalise(peer, CONTROL_PORT) for peer in self._who.peers)))
        count, offset = 0, time.time() - time.monotonic()
        while True:
            self.tell(m.Ticked())
            slept = time.time() - time.monotonic() - offset
            if slept >= SLEPT_S:
                self.tell(m.Woke(slept))
                self._probes.woke()
                if self._discovery is not None:
                    self._discovery.refresh()
            offset += slept
            if count % TELEMETRY_TICKS == 0:
                self._report(control_port)
            count += 1
            await asyncio.sleep(TICK_S)

    def _report(self, control_port: int) -> None:
        speed = self._probes.bytes_per_s
        self._profile = replace(
            self._describe(control_port),
            bytes_per_s=speed,
            measured_by=MEMORY if speed else "",
            links=self._probes.links,
            temperature_c=telemetry.temperature_c(),
            holds=self._holds,
        )
        self.tell(m.NodeReported(self._who.node, self._profile.memory_free_bytes, profile=self._profile))

    async def _take_stock(self) -> None:
        """A model that was pulled meanwhile can be placed here soon."""
        while True:
            await asyncio.sleep(STOCK_S)
            self._holds = await asyncio.to_thread(self._inventory.digests)

    async def _discover(self, control_port: int, join_port: int | None) -> None:
        c = self._who.credentials
        advert = Advert(self._who.node, self._options.name, "" if c is None else c.cluster, control_port, join_port)
        self._discovery = Discovery(advert, self._found, host=self._options.listen_host)
        await self._discovery.run()

    def _found(self, news: News) -> None:
        """Another cluster's nodes are none of our business, unless this start was to make no cluster at all."""
        ours = "" if self._who.credentials is None else self._who.credentials.cluster
        if isinstance(news, Found) and news.cluster_id == ours:
            self.tell(m.PeerFound(news.addresses, news.node_id))
        elif isinstance(news, Found) and news.join_port and self._who.came == "made" and not self._another_told:
            self._another_told = True
            log.info(
                "Node %s, of another cluster, is on this network. To be one with it: ringleader cluster invite there, "
                "and start here with what it prints",
                news.name,
            )

    async def _want_models(self) -> None:
        """Load the models that were named at the start, once the nodes that were asked for are here."""
        await self._nodes_here.wait()
        for reference in self._options.models:
            model = self._shelf.store.model_id(reference)
            try:
                entry = await self._shelf.entry(model)
            except RingleaderError as error:
                log.error("%s cannot be served: %s", reference, error)
            else:
                self.tell(m.RingWanted(entry.costs, self._fitted(self._wish, entry), entry.reference))


def _as_it_is(wish: m.PlanWish, _: Entry) -> m.PlanWish:
    return wish


def _present(snapshot: ClusterSnapshot) -> int:
    """How many nodes are here."""
    return sum(node.state != "lost" for node in snapshot.nodes)


def _for_others(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Without scoped IPv6 addresses where there are others: a scope is this machine's own name of an interface.
    Discovery finds those as the other node names them."""
    return tuple(host for host in hosts if "%" not in host) or hosts
