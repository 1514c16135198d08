"""Real nodes on real hosts: network namespaces of Linux, joined by a bridge. Needs root; skipped elsewhere.

    with World("abc", directory) as world:                # hosts a, b, c on one network, not this machine's
        a, b = world.host("a"), world.host("b")
        node = world.run_node("a", "--model", "smollm2-135m")  # `python -m ringleader node --json --leash ...` inside
        node.hello                                        # its JSON line, as a dict; node.api is the API's URL
        node.get("/v1/cluster"), node.post("/v1/...", {}) # JSON in and out; the node's loopback is reached from here
        world.launch_node("b", ...)                       # the same, not waited for: node.read_hello() does
        world.command("a", "cluster", "invite")           # `ringleader cluster invite` beside it
        async with node.session() as session: ...         # aiohttp in there: session.post(node.api + ...)
        node.kill(); node.stop(); node.send(SIGSTOP)      # SIGKILL, at once; SIGTERM and wait; any signal
        node.process.pid, node.children(), node.words()   # its own pid, its shards, its log so far

        world.cut("a", "b")                               # neither hears the other any more; c hears both
        world.cut("a", "b", both=False)                   # one way: what a sends does not reach b
        world.split("a", "bc")                            # a | b, c
        world.unplug("a"); world.plug("a")                # the cable: a's interface loses its carrier
        world.heal()                                      # all cuts and unplugged cables
        world.add_network("a", "b")                       # one more interface on a and on b, on a bridge of their own
        world.start("a", sys.executable, "-m", ...)       # any other process; its stdout by .line(within_s)

`cluster.py` has what tests of whole clusters share: Cluster(world, model) founds, invites, joins and watches nodes, and
Stream reads an answer in the background, so that tests read from top to bottom.

Cuts drop frames silently where they come in (all protocols, multicast too), so established connections hang as they
do in a real network; nothing is reset. Hosts have IPv4 (10.77.0.n) and IPv6 (fd77::n, link-local) on eth0;
`World(..., ipv4=False)` has link-local IPv6 only. Namespaces are named by this process's id; those of dead test runs
are removed at the start. At its end a World kills by pid whatever was started in it, and deletes its namespaces.
"""
