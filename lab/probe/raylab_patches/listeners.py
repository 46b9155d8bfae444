"""What a training listens on, kept on the loopback address in a lab of plain processes.

torch's store at which ranks meet (TCPStore, torch 2.13), torchft's servers, replicas of Ray Serve (ray 2.60)
and the ranks of XGBoost and LightGBM listen on every interface, whatever address they are told, and ask for
no token: the network could set a training's keys, take its weights, end it, or run code in a replica. Here
torch is handed a socket that is bound, torchft and Serve are told where to bind. The other two cannot be:
their sockets are bound to the loopback device (SO_BINDTODEVICE, Linux) within milliseconds after they began
to listen, which `ss -ltn` shows as `0.0.0.0%lo`.

A name or an address of this machine then means the loopback address: a script may meet at its host's name.
Gloo, NCCL and torch's RPC have settings for the same (lab/runtime/local/services.py). The processes of a
container reach only the lab's own network, so there is nothing to change there.
"""

from __future__ import annotations

from raylab_compat.import_hooks import after_import
from raylab_switches import active

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

LOOPBACK = "127.0.0.1"
DEVICE = b"lo"

LOOK_SECONDS = 0.01
"""Pause between two looks for a library's new sockets."""

STORE = (
    *("host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant"),
    *("master_listen_fd", "use_libuv"),
)
MANAGER = (
    *("replica_id", "lighthouse_addr", "hostname", "bind", "store_addr", "world_size"),
    *("heartbeat_interval", "connect_timeout", "quorum_retries"),
)
LIGHTHOUSE = ("bind", "min_replicas", "join_timeout_ms", "quorum_tick_ms", "heartbeat_timeout_ms")
CLIENT = ("addr", "connect_timeout")
"""Names of the arguments of torch's TCPStore and of torchft's classes, in their order."""


def here(host: str) -> str:
    """The loopback address for a name or an address of this machine; any other as it is."""
    import socket

    try:
        resolved = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return host
    for family, kind, _, _, address in resolved:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(address)
                return LOOPBACK
        except OSError:
            continue
    return host


def here_in(address: str) -> str:
    """The same of the host in `[scheme://]host:port[/path]`."""
    scheme, mark, rest = address.rpartition("://")
    host, colon, port = rest.rpartition(":")
    return f"{scheme}{mark}{here(host.strip('[]'))}{colon}{port}" if colon else address


def meet(given: dict[str, Any]) -> None:
    """Change the arguments of a store: where it serves it gets a socket that is bound already.

    Where the port is in use torch says so, or goes on with the store that this process has there.
    """
    import socket

    given["host_name"] = here(given["host_name"])
    if not given.get("is_master") or given.get("master_listen_fd") is not None:
        return
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((LOOPBACK, given.get("port") or 0))
    except OSError:
        held.close()
        return
    given.update(port=held.getsockname()[1], master_listen_fd=held.detach())


def serve(given: dict[str, Any]) -> None:
    """Change the arguments of a lighthouse or a manager."""
    given["bind"] = f"{LOOPBACK}:{given['bind'].rpartition(':')[2]}"
    if "hostname" in given:
        given["hostname"] = LOOPBACK
    ask(given)


def ask(given: dict[str, Any]) -> None:
    """Change the arguments of who asks a lighthouse."""
    for name in ("lighthouse_addr", "addr"):
        if name in given:
            given[name] = here_in(given[name])


def with_changed(
    call: Callable[..., Any], names: tuple[str, ...], change: Callable[[dict[str, Any]], None], own: int = 0
) -> Callable[..., Any]:
    """`call`, whose arguments after the first `own` have these names, with what `change` makes of them."""
    from functools import wraps

    @wraps(call)
    def changed(*args: Any, **kwargs: Any) -> Any:
        if not active("listeners"):
            return call(*args, **kwargs)
        given = {**dict(zip(names, args[own:], strict=False)), **kwargs}
        change(given)
        return call(*args[:own], **given)

    return changed


def kept_on_device(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, and meanwhile whatever this process listens on is bound to the loopback device."""
    from functools import wraps

    @wraps(call)
    def keeping(*args: Any, **kwargs: Any) -> Any:
        if not active("listeners"):
            return call(*args, **kwargs)
        from threading import Event, Thread

        ended = Event()

        def look() -> None:
            while not ended.wait(LOOK_SECONDS):
                bind_to_device()

        beside = Thread(target=look, daemon=True)
        beside.start()
        try:
            return call(*args, **kwargs)
        finally:
            ended.set()
            beside.join()
            bind_to_device()

    return keeping


def bind_to_device() -> None:
    """Bind each socket on which this process listens on all addresses to the loopback device. Linux only."""
    import os
    import socket
    import stat
    import sys

    if sys.platform != "linux":
        return
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.stat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as held:
                listens = held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                if listens and held.getsockname()[:1] in (("0.0.0.0",), ("::",)):
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, DEVICE)
        except OSError:  # one that went away
            continue


def change_torch(module: ModuleType) -> None:
    """Change torch's TCPStore itself: others have it under names of their own."""
    torch: Any = module
    if torch.is_available():
        store, init = torch.TCPStore, torch.TCPStore.__init__
        store.__init__ = with_changed(init, STORE, meet, own=1)


def change_torchft(module: ModuleType) -> None:
    """Change torchft's servers, and who asks the lighthouse."""
    torchft: Any = module
    for name, arguments, change in (
        ("LighthouseServer", LIGHTHOUSE, serve),
        ("ManagerServer", MANAGER, serve),
        ("LighthouseClient", CLIENT, ask),
    ):
        setattr(torchft, name, with_changed(getattr(torchft, name), arguments, change))


def change_weights(module: ModuleType) -> None:
    """Change the server from which a rank that came back takes the weights of the others."""
    transport: Any = module
    server, sender = transport._IPv6HTTPServer, transport.HTTPTransport
    bind, address = server.server_bind, sender.address

    def server_bind(self: Any) -> None:
        if active("listeners"):
            self.server_address = (f"::ffff:{LOOPBACK}", *self.server_address[1:])
        bind(self)

    server.server_bind = server_bind
    sender.address = lambda self: here_in(address(self)) if active("listeners") else address(self)


def change_serve(module: ModuleType) -> None:
    """Change where a replica takes calls of other replicas, which it unpickles."""
    replica: Any = module
    add = replica.add_port_to_grpc_server

    def add_port_to_grpc_server(server: Any, address: str) -> Any:
        if active("listeners"):
            address = f"{LOOPBACK}:{address.rpartition(':')[2]}"
        return add(server, address)

    replica.add_port_to_grpc_server = add_port_to_grpc_server


def change_xgboost(module: ModuleType) -> None:
    xgboost: Any = module
    xgboost.init = kept_on_device(xgboost.init)


def change_lightgbm(module: ModuleType) -> None:
    lightgbm: Any = module
    lightgbm.Booster.set_network = kept_on_device(lightgbm.Booster.set_network)


CHANGES: Mapping[str, Callable[[ModuleType], None]] = {
    "torch.distributed": change_torch,
    "torchft._torchft": change_torchft,
    "torchft.checkpointing.http_transport": change_weights,
    "ray.serve._private.replica": change_serve,
    "xgboost.collective": change_xgboost,
    "lightgbm.basic": change_lightgbm,
}
"""Module -> what keeps it on the loopback address."""


def install() -> None:
    """Change these libraries in this process, in a lab of plain processes; once is enough."""
    if active("listeners"):
        after_import(CHANGES)
