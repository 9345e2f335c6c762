"""Frames from another process: the buffer's fd is sent once, the frames are never copied."""

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np

import qnnrt

SHAPE = (720, 1280, 3)
FRAMES = 5


def camera(pipe: Connection) -> None:
    """The producer: it writes into memory that the consumer sees."""
    buffer = pipe.recv()  # the same pages, mapped here
    frame = buffer.array(SHAPE, np.uint8)
    for number in range(FRAMES):
        frame[...] = number + 1
        pipe.send(number)
        pipe.recv()  # the consumer is done with it


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with qnnrt.alloc(int(np.prod(SHAPE))) as buffer:
        frame = buffer.array(SHAPE, np.uint8)
        producer = spawn.Process(target=camera, args=(theirs,))
        producer.start()
        ours.send(buffer)
        for _ in range(FRAMES):
            number = ours.recv()
            assert frame.min() == frame.max() == number + 1
            print(f"frame {number}: mean {frame.mean():.1f}, {frame.nbytes} bytes, none sent")
            ours.send("next")
        producer.join()
        del frame  # a view keeps the buffer alive; without it the buffer can be closed


if __name__ == "__main__":
    main()
