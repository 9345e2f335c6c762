"""Two nodes of Ray on this machine, as a program: prints what happened between them as JSON.

In a process of its own, since a process is in one cluster at a time.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import astuple
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

import qnnrt
import qnnrt.ray as qr
from support.ray_actors import STORE, Consumer, Producer, environment, until

N = 3 << 20


def on(place: str, kind: type) -> Any:
    made = ray.remote(num_cpus=0, enable_tensor_transport=True, resources={place: 0.01})(kind)
    return made.remote()


def counted(consumer: Any) -> tuple[int, ...]:
    return astuple(ray.get(consumer.transfers.remote()))


def error(call: Any) -> list[str]:
    """The kind of error and its reason; which Ray wraps, or says itself."""
    try:
        ray.get(call(), timeout=300)
    except qnnrt.HandoffError as raised:
        return ["HandoffError", raised.reason]
    except ray.exceptions.RayError as raised:
        return [type(raised).__name__, str(raised)]
    return ["nothing", ""]


def transfers(said: dict[str, Any]) -> None:
    producer, near, far = on("here", Producer), on("here", Consumer), on("there", Consumer)
    # What a process has from its first hand-out on stays.
    for one, other in ((far, near), (near, far)):
        ray.get(one.sum.remote(other.forward.remote(producer.make.remote(N, 0))))
    until(lambda: not any(ray.get(c.holdings.remote())["buffers"] for c in (near, far)))
    before = ray.get(far.holdings.remote()), ray.get(near.holdings.remote())
    counted(near), counted(far)
    reference = producer.make.remote(N, 1)
    said["sums"] = ray.get([near.sum.remote(reference), far.sum.remote(reference)])
    said["near"], said["far"] = counted(near), counted(far)
    # Memory of its own: what one side writes the other one does not see.
    ray.get(far.write.remote(reference, 9))
    said["first"] = ray.get(producer.first.remote())
    counted(far)
    views = ray.get(far.describe.remote(producer.views.remote("some")))
    said["view"], said["view strides"] = views["odd"][4], views["odd"][3]
    said["views"] = counted(far)
    buffer = qnnrt.alloc(N)
    buffer.array((N,), np.uint8)[:] = 2
    given = ray.put(buffer, _tensor_transport=qr.TRANSPORT)
    said["from the driver"] = ray.get(far.sum.remote(given)), counted(far)
    said["pickled"] = ray.get(far.sum.remote(buffer)), counted(far)
    said["back"] = ray.get(near.sum.remote(far.forward.remote(reference))), counted(near)
    counted(far)
    del reference, given
    said["left on the far side"] = until(lambda: ray.get(far.holdings.remote()) == before[0])
    said["left on the near side"] = until(lambda: ray.get(near.holdings.remote()) == before[1])
    # The process is gone, its node is not.
    doomed = producer.make.remote(N, 1)
    ray.wait([doomed])
    os.kill(ray.get(producer.pid.remote()), signal.SIGKILL)
    until(lambda: error(producer.pid.remote)[0] == "ActorDiedError")
    said["killed producer"] = error(lambda: far.sum.remote(doomed))


def lost_node(said: dict[str, Any], cluster: Cluster, node: Any) -> None:
    producer, near = on("there", Producer), on("here", Consumer)
    before = ray.get(near.holdings.remote())
    references = [producer.make.remote(N, value) for value in (1, 2)]
    ray.get(near.keep.remote(references[0]))
    ray.wait(references, num_returns=2)
    cluster.remove_node(node, allow_graceful=False)  # kill -9
    said["lost node"] = error(lambda: near.sum.remote(references[1]))
    said["lost producer"] = error(producer.pid.remote)
    said["kept"] = ray.get(near.kept_sum.remote())
    ray.get(near.forget.remote())
    references.clear()
    said["left after the node"] = until(lambda: ray.get(near.holdings.remote()) == before)


def main() -> None:
    with environment():
        options = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        quick = {"health_check_timeout_ms": 2000}  # until a node is known to be lost
        cluster = Cluster(
            initialize_head=True,
            head_node_args={**options, "resources": {"here": 1}, "_system_config": quick},
        )
        node = cluster.add_node(**options, resources={"there": 1})
        ray.init(address=cluster.address, log_to_driver=False)
        said: dict[str, Any] = {}
        try:
            transfers(said)
            lost_node(said, cluster, node)
        finally:
            ray.shutdown()
            cluster.shutdown()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
