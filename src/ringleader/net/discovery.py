"""Finds the other nodes on all networks of this machine by multicast DNS, and lets itself be found.

It finds addresses and grants nothing: who a node is, its certificate says when it is dialled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

import zeroconf
from zeroconf import IPVersion, ServiceInfo

from ringleader.net.advert import Advert, read_advert
from ringleader.net.interfaces import Interface, local_interfaces, reached_at
from ringleader.net.mdns import Budget, Ear, Voice
from ringleader.net.neighbours import Neighbours, News

POLL_S = 2.0  # how soon a new interface is noticed
BEACON_FIRST_S = 2.0  # after a change; then twice as long each time, up to:
BEACON_S = 30.0  # Wi-Fi loses multicast, so what was said once is said again

log = logging.getLogger("ringleader.net")


class Discovery:
    """Advertises one node and tells of others, while `run` runs.

    `host` is where the node listens: an address that stands for all interfaces, or one of one interface.
    `tell` is called on the event loop, again whenever something of a node changes, never for the node itself.
    """

    def __init__(
        self,
        advert: Advert,
        tell: Callable[[News], None],
        *,
        host: str = "0.0.0.0",
        look: Callable[[], tuple[Interface, ...]] = local_interfaces,
        clock: Callable[[], float] = time.monotonic,
        budget: Budget | None = None,
    ) -> None:
        self._neighbours = Neighbours(advert)
        self._tell = tell
        self._host = host
        self._look = look
        self._clock = clock
        self.budget = budget or Budget()
        self._voices = {version: self._voice(version) for version in (IPVersion.V4Only, IPVersion.V6Only)}
        self._troubles: dict[IPVersion, str] = {}
        self._interfaces: tuple[Interface, ...] | None = None
        self._beacon_at = 0.0
        self._beacon_pause_s = BEACON_FIRST_S
        self._afresh = False
        self._now = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled; then say goodbye. Trouble with the network is logged once and tried again."""
        try:
            while True:
                self._now.clear()
                await self._look_around()
                self._tell_all(self._neighbours.tick(self._clock()))
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_S):
                        await self._now.wait()
        finally:
            await asyncio.gather(*(voice.close() for voice in self._voices.values()))

    def advertise(self, advert: Advert) -> None:
        """Say something else from now on, as after joining a cluster. The node's id and name must stay."""
        if advert != self._neighbours.own:
            self._neighbours.own = advert
            self.refresh()

    def refresh(self) -> None:
        """Announce and ask now, as after sleep; within the budget."""
        self._afresh = True
        self._now.set()

    # ------------------------------------------------------------ speaking

    async def _look_around(self) -> None:
        interfaces = reached_at(self._host, self._look())
        if interfaces != self._interfaces:
            self._note_change(interfaces)
        afresh, self._afresh = self._afresh, False
        if afresh:
            self._beacon_at, self._beacon_pause_s = 0.0, BEACON_FIRST_S
        await asyncio.gather(*(self._use(version, interfaces, ask=afresh) for version in self._voices))
        if self._clock() >= self._beacon_at:
            for voice in self._voices.values():
                voice.beacon()
            self._beacon_at = self._clock() + self._beacon_pause_s
            self._beacon_pause_s = min(2 * self._beacon_pause_s, BEACON_S)

    def _note_change(self, interfaces: tuple[Interface, ...]) -> None:
        if not interfaces and self._interfaces != ():
            log.warning("No network interface is up for discovery; other nodes are looked for once there is one")
        self._interfaces = interfaces
        self._beacon_pause_s = BEACON_FIRST_S
        self._beacon_at = self._clock() + BEACON_FIRST_S  # whoever moves to new interfaces announces by itself
        self._tell_all(self._neighbours.moved(interfaces))

    async def _use(self, version: IPVersion, interfaces: tuple[Interface, ...], ask: bool) -> None:
        try:
            await self._voices[version].use(self._neighbours.own, interfaces)
            if ask:
                await self._voices[version].ask()
        except (OSError, zeroconf.Error) as error:
            trouble = f"{type(error).__name__}: {error}"
            if self._troubles.get(version) != trouble:
                family = "IPv4" if version is IPVersion.V4Only else "IPv6"
                log.warning("Discovery over %s does not work just now (%s); it is tried again", family, trouble)
            self._troubles[version] = trouble
        else:
            self._troubles.pop(version, None)

    # ------------------------------------------------------------ listening

    def _voice(self, version: IPVersion) -> Voice:
        def heard(label: str, info: ServiceInfo) -> None:
            advert = read_advert(info.properties, info.port)
            if advert is not None:
                hosts = info.parsed_scoped_addresses()
                self._tell_all(self._neighbours.heard(label, advert, version.name, hosts, self._clock()))

        return Voice(version, self.budget, Ear(heard, lambda label: self._tell_all(self._neighbours.gone(label))))

    def _tell_all(self, news: list[News]) -> None:
        for each in news:
            self._tell(each)
