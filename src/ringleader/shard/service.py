"""The shard's gRPC face: joins a ring, takes frames from the previous shard, hands its own part on.

Frames of another plan, of another epoch or out of step are refused before anything is looked at.
All compute runs on the engine's one thread; the event loop never waits for MLX.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, TypeVarTuple

import grpc
import grpc.aio
from mlx_lm.models.cache import KVCache

from ringleader.errors import NotTrusted
from ringleader.shard.activations import Activation, FrameRefused, can_code
from ringleader.shard.batcher import PROGRESS_DEADLINE_S, Limits, Segments
from ringleader.shard.drafter import DraftModel
from ringleader.shard.drafting import Step
from ringleader.shard.engine import Computed, Engine, PrefixMissing
from ringleader.shard.frames import FRAME_BYTES_MAX, activation_of, orders_of, segments_of, stage_seconds
from ringleader.shard.head import Head
from ringleader.shard.link import NextLink
from ringleader.shard.pace import Pace
from ringleader.shard.prefixes import Orders
from ringleader.shard.sampler import Picked
from ringleader.shard.trace import Tracer
from ringleader.trust.credentials import Credentials
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import LayerRange, NodeId
from ringleader.wire import CODING_FROM_WIRE, EPOCH_KEY, PROTOCOL_VERSION, RIDE_FROM_WIRE, RIDE_TO_WIRE

log = logging.getLogger("ringleader.shard")

Context = grpc.aio.ServicerContext[Any, Any]
Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

CHUNK_TOKENS_MAX = 512  # a prompt frame; larger ones would hold up answers that run
AHEAD_FRAMES_MAX = 8  # taken in while another is computed: a ring has one or two more than stages under way in all
REPORTS_MAX = 65_536  # reports that a master may leave unread


class ShardService(rpc.RingServicer):
    """One shard. Nothing is served before `Link` has been called."""

    def __init__(
        self,
        engine: Engine,
        thread: ThreadPoolExecutor,
        plan: str,
        layers: LayerRange,
        kv_tokens_max: int,
        progress_deadline_s: float = PROGRESS_DEADLINE_S,
        credentials: Credentials | None = None,
        digest: str = "",
        layer_count: int = 0,
        pace: Pace | None = None,
        tracer: Tracer | None = None,
        kv_bits: int = 0,
        draft_model: DraftModel | None = None,
    ) -> None:
        self._engine = engine
        self._thread = thread
        self._plan = bytes.fromhex(plan)
        self._layers = layers
        self._kv_tokens_max = kv_tokens_max
        self._progress_deadline_s = progress_deadline_s
        self._credentials = credentials
        self._digest = digest
        self._layer_count = layer_count
        self._pace = pace
        self._tracer = tracer
        self._kv_bits = kv_bits
        self._draft_model = draft_model
        self._fence: tuple[int, str, int] = (0, "", 0)  # of the highest linking: term, master, epoch
        self._epoch = 0
        self._step = 0
        self._next: NextLink | None = None
        self._head: Head | None = None
        self._driver: asyncio.Task[None] | None = None
        self._passes: set[asyncio.Queue[pb.PassReport]] = set()  # of the streams that bring us frames

    # ------------------------------------------------------------ who, and the ring's making

    async def Hello(self, request: pb.HelloRequest, context: Context) -> pb.HelloReply:
        """Version and identity; another protocol version is refused by name."""
        if request.version != PROTOCOL_VERSION:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"this shard speaks protocol {PROTOCOL_VERSION}, the caller {request.version}",
            )
        return pb.HelloReply(
            version=PROTOCOL_VERSION,
            plan=self._plan,
            first_layer=self._layers.start,
            stop_layer=self._layers.stop,
            slots=self._engine.slots,
            memory_bytes=await self._on_thread(self._engine.memory_bytes),
            ride=RIDE_TO_WIRE[self._engine.ride],
            slot_tokens=self._engine.slot_tokens,
            steps_back=self._engine.steps_back,
            state_tokens=await self._on_thread(lambda: self._engine.state_tokens),
        )

    async def Link(self, request: pb.LinkRequest, context: Context) -> pb.LinkReply:
        """Forget every slot and join the ring of a newer epoch."""
        fence = (request.term, request.master, request.epoch)
        if fence <= self._fence:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"epoch {self._epoch} is already known")
        if request.plan != self._plan and not self._holds(request):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this shard belongs to another plan")
        coding = CODING_FROM_WIRE.get(request.coding)
        if coding is None or not can_code(coding, self._engine.hidden_size):
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"activations {self._engine.hidden_size} wide cannot be sent as {coding}: leave --wire out",
            )
            return pb.LinkReply()
        await self._unlink()
        self._engine.coding = coding
        self._fence, self._plan = fence, request.plan
        self._epoch, self._step = request.epoch, 0
        await self._on_thread(self._engine.reset)
        self._engine.drafts = request.drafts
        if self._tracer is not None:
            self._tracer.linked(f"{request.plan.hex()[:8]} epoch {request.epoch}", request.index, request.shards)
        if request.shards > 1:
            try:
                await self._open_next(request)
            except (TimeoutError, NotTrusted, grpc.aio.AioRpcError) as error:
                await context.abort(
                    grpc.StatusCode.UNAVAILABLE,
                    f"the next shard at {request.next_address} does not answer: {error!r}",
                )
        if request.index == 0:
            await self._start_head(request)
        log.info("linked as %d of %d", request.index + 1, request.shards)
        return pb.LinkReply()

    def _holds(self, request: pb.LinkRequest) -> bool:
        """Whether the plan gives this shard just the layers, files and room that it has under another plan's name."""
        mine = (
            self._digest,
            self._layers.start,
            self._layers.stop,
            self._layer_count,
            self._kv_tokens_max,
            self._kv_bits,
        )
        share = request.share
        theirs = (share.digest, share.first_layer, share.stop_layer, share.layers, share.kv_tokens, share.kv_bits)
        return bool(self._digest) and mine == theirs

    async def _open_next(self, request: pb.LinkRequest) -> None:
        peer = NodeId(request.next_node) if request.next_node else None
        link = NextLink(
            request.next_address, self._plan, request.epoch, self._break, self._get_ahead, self._credentials, peer
        )
        self._next = link
        await link.open()

    async def _start_head(self, request: pb.LinkRequest) -> None:
        chunk = max(1, min(CHUNK_TOKENS_MAX, FRAME_BYTES_MAX // self._engine.row_bytes))
        limits = Limits(
            chunk_tokens=chunk,
            flight_max=request.shards,
            kv_tokens_max=-(-self._kv_tokens_max // KVCache.step) * KVCache.step,
            kv_step=KVCache.step,
            kv_slot=request.slot_tokens,
            ride=RIDE_FROM_WIRE[request.ride],
            machines=tuple(request.machines) or tuple(range(request.shards)),
            keeps=not request.no_prefixes,
            state_tokens=request.state_tokens,
        )
        link, model = self._next, self._draft_model if request.drafts else None
        if model is not None:
            await _run(model.thread, model.drafter.reset)
        self._head = Head(
            limits,
            self._compute,
            self._send if link else None,
            lambda: link.frame_bytes if link else 0,
            self._progress_deadline_s,
            None if model is None else functools.partial(_draft, model),
            frozenset() if model is None else model.ends,
        )
        self._driver = asyncio.create_task(self._head.drive(), name="head")
        self._driver.add_done_callback(self._driver_ended)

    def _driver_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the head's driver failed", exc_info=error)
            self._break(f"the head failed: {error!r}")

    async def _unlink(self) -> None:
        if self._driver is not None:
            self._driver.cancel()
        if self._next is not None:
            await self._next.close()
        self._driver = self._next = self._head = None

    def _break(self, reason: str) -> None:
        """This epoch's ring is over: tell the master if we are the head, the previous shard if not."""
        log.warning("the ring broke: %s", reason)
        for reports in self._passes:
            _offer(reports, pb.PassReport(step=self._step, error=reason))
        if self._head is not None:
            self._head.lost(reason)

    # ------------------------------------------------------------ frames

    async def Pass(self, frames: AsyncIterator[pb.Frame], context: Context) -> AsyncIterator[pb.PassReport]:
        """Take the previous shard's frames; report, once, a refused frame or a ring that broke."""
        reports: asyncio.Queue[pb.PassReport] = asyncio.Queue(maxsize=1)
        self._passes.add(reports)
        reader = asyncio.create_task(self._take(frames, reports), name="frames")
        try:
            yield await reports.get()
        finally:
            self._passes.discard(reports)
            reader.cancel()

    async def _take(self, frames: AsyncIterator[pb.Frame], reports: asyncio.Queue[pb.PassReport]) -> None:
        epoch = 0  # of this stream's frames; 0 before the first
        error = "the stream ended"
        inbox: asyncio.Queue[pb.Frame | None] = asyncio.Queue(maxsize=AHEAD_FRAMES_MAX)
        reader = asyncio.create_task(_read_ahead(frames, inbox), name="read ahead")
        try:
            while (frame := await inbox.get()) is not None:
                self._check(frame)
                epoch, self._step = frame.epoch, frame.step
                await self._handle(frame)
            await reader
        except FrameRefused as refusal:
            epoch, error = 0, str(refusal)
        except grpc.aio.AioRpcError as ended:
            error = f"the stream ended: {ended.details()}"
        except Exception as fault:  # the stream's root: the ring must hear of a frame that cannot be computed
            log.error("a frame could not be computed", exc_info=fault)
            error = f"it could not be computed: {fault!r}"
        finally:
            reader.cancel()
        _offer(reports, pb.PassReport(step=self._step, error=error))
        if epoch and epoch == self._epoch:
            self._break(f"the previous shard is gone ({error})")

    def _check(self, frame: pb.Frame) -> None:
        if frame.plan != self._plan:
            raise FrameRefused("it belongs to another plan")
        if frame.epoch != self._epoch:
            raise FrameRefused(f"it belongs to epoch {frame.epoch}, this ring is in {self._epoch}")
        if frame.step != self._step + 1:
            raise FrameRefused(f"step {frame.step} came after {self._step}")

    async def _handle(self, frame: pb.Frame) -> None:
        if self._head is not None:
            if frame.sampled:
                self._head.returned(frame)
            return
        sent, orders = segments_of(frame), orders_of(frame)
        received = None if sent is None or frame.missed else activation_of(frame)
        computed = await self._computed(sent, orders, received, frame.step, frame.missed)
        link = self._next
        if link is None:
            raise FrameRefused("this shard has no next one")
        so_far = (*stage_seconds(frame), computed.seconds)
        if not self._engine.is_tail:
            await self._send(sent, orders, computed, so_far)
        elif sent is not None:
            picked = computed.out if isinstance(computed.out, tuple) else (Picked(),) * len(sent.turns)
            await link.send_sampled(sent, picked, so_far, computed.missed)

    async def _send(
        self, sent: Segments | None, orders: Orders, computed: Computed, stage_s: tuple[float, ...] | None = None
    ) -> None:
        """Hand our part to the link, which sends it while the next frame is computed."""
        activation = computed.out if isinstance(computed.out, Activation) else None
        stage_s = (computed.seconds,) if stage_s is None else stage_s
        if self._next is not None:
            await self._next.send(sent, orders, activation, stage_s if activation else (), computed.missed)

    async def _compute(self, sent: Segments | None, orders: Orders) -> Computed:
        """The head's part of a frame."""
        return await self._computed(sent, orders, None, self._next.step + 1 if self._next else 0)

    async def _computed(
        self, sent: Segments | None, orders: Orders, received: Activation | None, step: int, missed: bool = False
    ) -> Computed:
        """Our part of a frame. Alone in its ring, the thread gets ahead at once, before anybody is told."""
        loop = asyncio.get_running_loop()
        computed = loop.run_in_executor(self._thread, self._run, sent, orders, received, step, missed)
        if self._next is None:
            self._get_ahead()
        return await computed

    def _get_ahead(self) -> None:
        ahead = asyncio.get_running_loop().run_in_executor(self._thread, self._engine.get_ahead)
        ahead.add_done_callback(self._got_ahead)

    def _got_ahead(self, done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (fault := done.exception()) is not None:
            log.error("the next step could not be begun", exc_info=fault)
            self._break(f"the next step could not be begun: {fault!r}")

    def _run(
        self, sent: Segments | None, orders: Orders, received: Activation | None, step: int, missed: bool = False
    ) -> Computed:
        """Our part of a frame; of one that `missed` a prefix before it came here, the orders alone."""
        begun = time.perf_counter()
        self._engine.obey(orders)
        if sent is None:
            return Computed(None, time.perf_counter() - begun)
        if missed:
            self._engine.miss(sent)
            return Computed(None, time.perf_counter() - begun, missed=True)
        try:
            out = self._engine.run(sent, received)
        except PrefixMissing:
            return Computed(None, time.perf_counter() - begun, missed=True)
        begun = min(begun, self._engine.begun)
        computed_s = time.perf_counter() - begun
        if self._pace is not None:
            self._pace.wait(begun, len(sent.turns) * sent.width)
        seconds = time.perf_counter() - begun
        if self._tracer is not None:
            self._tracer.passed(sent, step, begun, seconds, computed_s)
        return Computed(out, seconds)

    async def _on_thread(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        return await _run(self._thread, function, *arguments)

    # ------------------------------------------------------------ the master

    async def Serve(self, orders: AsyncIterator[pb.HeadOrder], context: Context) -> AsyncIterator[pb.HeadReport]:
        """The master's stream of requests; its end cancels what it asked for."""
        head = self._head
        said = dict(context.invocation_metadata() or ())
        if said.get(EPOCH_KEY, str(self._epoch)) != str(self._epoch):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"the ring is in epoch {self._epoch} by now")
        if head is None:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "this shard is not the head of a linked ring")
            return
        reports: asyncio.Queue[pb.HeadReport] = asyncio.Queue(maxsize=REPORTS_MAX)
        head.serve(reports)
        reader = asyncio.create_task(self._orders(head, orders), name="orders")
        try:
            while True:
                yield await reports.get()
        finally:
            reader.cancel()
            head.hang_up(reports)

    async def _orders(self, head: Head, orders: AsyncIterator[pb.HeadOrder]) -> None:
        async for order in orders:
            head.order(order)


async def _run(thread: ThreadPoolExecutor, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
    return await asyncio.get_running_loop().run_in_executor(thread, function, *arguments)


async def _draft(model: DraftModel, step: Step) -> tuple[int | None, float]:
    return await _run(model.thread, model.drafter.step, step)


async def _read_ahead(frames: AsyncIterator[pb.Frame], inbox: asyncio.Queue[pb.Frame | None]) -> None:
    """Take frames in while others are computed; None is their end, whatever it was: this task tells."""
    try:
        async for frame in frames:
            await inbox.put(frame)
    except Exception:  # the task's root: who awaits it is told
        await inbox.put(None)
        raise
    await inbox.put(None)


def _offer(reports: asyncio.Queue[pb.PassReport], report: pb.PassReport) -> None:
    """One report is enough: the stream ends with it."""
    if not reports.full():
        reports.put_nowait(report)
