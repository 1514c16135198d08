"""Multicast DNS for one address family: zeroconf, with a bound on every packet that we send.

Where Thunderbolt bridges form a loop, a multicast packet goes round for ever and comes back as a new one each
second. We cannot break the loop; we can see to it that nothing we hear makes us send more than the budget.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import zeroconf
from zeroconf import DNSQuestionType, IPVersion, RecordUpdate, RecordUpdateListener, ServiceInfo, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncZeroconf

from ringleader.net.advert import SERVICE, Advert
from ringleader.net.interfaces import Interface

PACKETS_BURST = 180  # a start on eight interfaces of both families: questions, announcements, first answers
PACKETS_PER_S = 2.0  # so in any minute at most 180 + 120 packets leave, over all interfaces together
OWN_SHARE = 3  # a third of the burst is kept for our own beacons and goodbyes when answers use up the rest
TTL_S = 120
ADDRESSES_TOLD_MAX = 32  # of this machine; more would not fit one packet

# It warns of every address that is too young, of loopback, of a cable pulled out: what discovery expects and mends.
logging.getLogger("zeroconf").setLevel(logging.CRITICAL)


@dataclass(slots=True)
class Budget:
    """A token bucket of packets: `burst` at once, `per_s` in the long run."""

    burst: int = PACKETS_BURST
    per_s: float = PACKETS_PER_S
    clock: Callable[[], float] = time.monotonic
    refused: int = 0
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left = self.burst
        self._at = self.clock()

    def take(self, packets: int, own: bool = False) -> bool:
        """Spend, if there is enough; otherwise count them as refused. What is not our own word leaves OWN_SHARE."""
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._at) * self.per_s)
        self._at = now
        if self._left - packets < (0 if own else self.burst // OWN_SHARE):
            self.refused += packets
            return False
        self._left -= packets
        return True


class BoundedZeroconf(Zeroconf):
    """Zeroconf whose every packet is paid from a budget; what it cannot pay is not sent.

    Answers, questions and announcements all leave by `async_send`; multicast DNS lives with lost packets.
    """

    def __init__(self, budget: Budget, **options: Any) -> None:
        self.budget = budget
        self.own_words = False  # set around what must go out even when answers have used up their part
        super().__init__(**options)

    def async_send(
        self, out: Any, addr: Any = None, port: int = 5353, v6_flow_scope: Any = (), transport: Any = None
    ) -> None:
        """As zeroconf's, if the budget pays for it: one for each packet and interface."""
        packets = len(out.packets()) * (1 if transport is not None else len(self.engine.senders))
        if packets and self.budget.take(packets, own=self.own_words):
            super().async_send(out, addr, port, v6_flow_scope, transport)


def service_info(advert: Advert, interfaces: tuple[Interface, ...]) -> ServiceInfo:
    """The advert as DNS records. Its host name is its own, so that it cannot clash with the machine's in Bonjour."""
    hosts = dict.fromkeys(str(address.ip) for each in interfaces for address in each.addresses)
    label = advert.label()
    return ServiceInfo(
        SERVICE,
        f"{label}.{SERVICE}",
        port=advert.control_port,
        properties=advert.to_txt(),
        server=f"{label}.local.",
        host_ttl=TTL_S,
        other_ttl=TTL_S,
        parsed_addresses=list(hosts)[:ADDRESSES_TOLD_MAX],
    )


class Ear(RecordUpdateListener):
    """Reads records of our service out of everything that is heard.

    `on_heard` gets (label, service) whenever a complete service was announced or repeated, `on_goodbye` a label.
    """

    def __init__(self, on_heard: Callable[[str, ServiceInfo], None], on_goodbye: Callable[[str], None]) -> None:
        self._on_heard = on_heard
        self._on_goodbye = on_goodbye
        self._zc: Zeroconf | None = None
        self._heard: set[str] = set()
        self._goodbyes: set[str] = set()

    def async_update_records(self, zc: Zeroconf, now: float, records: list[RecordUpdate]) -> None:
        self._zc = zc
        for update in records:
            record: Any = update.new
            pointer = record.key == SERVICE
            name = str(getattr(record, "alias", "") if pointer else record.name).lower()
            if not name.endswith("." + SERVICE):
                continue
            if not record.is_expired(now):
                self._heard.add(name)
            elif pointer:
                self._goodbyes.add(name)

    def async_update_records_complete(self) -> None:
        heard, self._heard = self._heard - self._goodbyes, set()
        goodbyes, self._goodbyes = self._goodbyes, set()
        for name in goodbyes:
            self._on_goodbye(name)
        for name in heard:
            with suppress(zeroconf.Error):  # a name that is none
                info = ServiceInfo(SERVICE, name)
                if self._zc is not None and info.load_from_cache(self._zc):
                    self._on_heard(name, info)


class Voice:
    """Speaks and listens in one address family, on given interfaces.

    One zeroconf for both families would need a dual-stack socket, which macOS lets into no IPv4 group.
    `use` may raise OSError or zeroconf.Error; it can be called again.
    """

    def __init__(self, version: IPVersion, budget: Budget, ear: Ear) -> None:
        self._version = version
        self._budget = budget
        self._ear = ear
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._places: dict[str, int] = {}
        self._told: tuple[Any, ...] = ()

    async def use(self, advert: Advert, interfaces: tuple[Interface, ...]) -> None:
        """Be on these interfaces, and answer with this advert; announces and asks anew where that is a change.

        An address may be too young to be bound (IPv6 looks for duplicates first); the next call tries it again.
        """
        places = self._choose(interfaces)
        info = service_info(advert, interfaces)
        told = (info.text, info.port, info.addresses_by_version(IPVersion.All))
        if self._zeroconf is None:
            if places:
                await self._open(places, info)
        elif places != self._places or told != self._told or len(self._zc.engine.senders) != len(places):
            await self._move(self._zeroconf, places, info, silent=told == self._told)
        self._places, self._told = places, told

    def beacon(self) -> None:
        """Announce once more, at the cost of one packet for each interface."""
        if self._zeroconf is None:
            return
        zc = self._zc
        zc.own_words = True
        for info in zc.registry.async_get_service_infos():
            zc.async_send(zc.generate_service_broadcast(info, None))
        zc.own_words = False

    async def ask(self) -> None:
        """Ask who is there, four times within fifteen seconds."""
        if self._zeroconf is None:
            return
        if self._browser is not None:
            await self._browser.async_cancel()
        # A unicast answer would reach only one of several nodes on this machine: they share port and address.
        self._browser = AsyncServiceBrowser(
            self._zc, SERVICE, handlers=[lambda **_: None], question_type=DNSQuestionType.QM
        )

    async def close(self) -> None:
        """Say goodbye and be silent. Takes a quarter of a second."""
        closing, self._zeroconf = self._zeroconf, None
        if closing is None:
            return
        if self._browser is not None:
            await self._browser.async_cancel()
        if isinstance(closing.zeroconf, BoundedZeroconf):
            closing.zeroconf.own_words = True
        with suppress(OSError, zeroconf.Error):
            await closing.async_close()

    @property
    def _zc(self) -> BoundedZeroconf:
        assert self._zeroconf is not None and isinstance(self._zeroconf.zeroconf, BoundedZeroconf)
        return self._zeroconf.zeroconf

    async def _open(self, places: dict[str, int], info: ServiceInfo) -> None:
        zc = BoundedZeroconf(self._budget, interfaces=list(places), ip_version=self._version, use_asyncio=True)
        zc.async_add_listener(self._ear, None)  # before the first await: what comes again within a second is not told
        self._zeroconf = AsyncZeroconf(zc=zc)
        try:
            await zc.async_wait_for_start()
            await self.ask()
            # The label has the digest of an id that is ours alone: looking for another holder first would cost
            # packets and a second, and finds our own last announcement after a restart.
            await (await self._zeroconf.async_register_service(info, cooperating_responders=True))
        except (OSError, zeroconf.Error):
            await self.close()
            raise

    async def _move(self, zc: AsyncZeroconf, places: dict[str, int], info: ServiceInfo, silent: bool) -> None:
        """To other interfaces or another advert."""
        self._zc.registry.async_update(info)
        before = len(self._zc.engine.senders)
        # Zeroconf knows an interface by its address. One that went and came back under its old address is another
        # one to the kernel, so it must be left before it is joined again.
        staying = [place for place, index in places.items() if self._places.get(place, index) == index]
        if len(staying) < len(places):
            await zc.async_update_interfaces(staying, self._version)
        await zc.async_update_interfaces(list(places), self._version)
        if places != self._places or len(self._zc.engine.senders) != before:
            await self.ask()
        if not silent:
            self.beacon()

    def _choose(self, interfaces: tuple[Interface, ...]) -> dict[str, int]:
        """One address of each interface, which stands for it, and its index. IPv6 has no multicast on loopback."""
        if self._version is IPVersion.V4Only:
            return {each.ipv4: each.index for each in interfaces if each.ipv4}
        return {each.link_local: each.index for each in interfaces if each.link_local and not each.loopback}
