# Part of _core.pyx: a text that goes to another process with its key-value cache.

# A message: a ticket, then words of 64 bits: rows, row and the tokens.
cdef Py_ssize_t _HEAD = sizeof(qnnrt_ticket_t)
cdef Py_ssize_t _WORD = sizeof(int64_t)
cdef Py_ssize_t _PLACE_WORDS = 2


cdef class Slots:
    """Caches in a buffer that has room for those of ``rows`` texts: of ``count`` texts that are
    next to each other there, from row ``first`` on.

    Attributes:
        kept: what they were bound by last, so that it is registered when they are bound again.
    """

    cdef readonly Buffer buffer
    cdef readonly Py_ssize_t rows, first, count
    cdef public object kept

    def __init__(self, Buffer buffer not None, Py_ssize_t rows=1, Py_ssize_t first=0,
                 Py_ssize_t count=1):
        self.buffer, self.rows, self.first, self.count = buffer, rows, first, count

    def __eq__(self, other) -> bool:
        cdef Slots o
        if not isinstance(other, Slots):
            return NotImplemented
        o = other
        return (self.rows == o.rows and self.first == o.first and self.count == o.count and
                self.buffer == o.buffer)

    __hash__ = None


cdef enum:
    _CACHE_ALIGNMENT = 4096  # of each tensor in a buffer of caches


cdef uint64_t _place_caches(const vector[uint64_t]& sizes, uint64_t rows, uint64_t row,
                            vector[uint64_t]& offsets) noexcept:
    """Where the caches of a text lie in a buffer of those of so many: of each tensor all rows are
    next to each other. Returns the size of such a buffer; more than any has, if it is too large for
    a number."""
    cdef uint64_t at = 0, most = <uint64_t>1 << 62
    cdef size_t i
    offsets.clear()
    for i in range(sizes.size()):
        if sizes[i] and rows > (most - at) // sizes[i]:
            return <uint64_t>-1
        offsets.push_back(at + row * sizes[i])
        at += rows * sizes[i] + _CACHE_ALIGNMENT - 1
        at -= at % _CACHE_ALIGNMENT
    return at


def place_caches(sizes, rows, row):
    """Of tensors of so many bytes each: where those of a text lie in a buffer with the caches of
    ``rows`` texts, and the size of that buffer."""
    cdef vector[uint64_t] offsets
    cdef uint64_t nbytes = _place_caches(sizes, rows, row, offsets)
    return [offsets[i] for i in range(offsets.size())], nbytes


cdef class Prefix:
    """A text that was read, with its cache. It can be sent to another process, pickled or as
    `to_bytes`: the cache goes as a file descriptor, not as bytes. Who goes on with it writes into
    the same memory, behind the text.

    Attributes:
        tokens: the text.
        cache: the buffer with its keys and values.
        rows, row: of how many texts the buffer has the caches, and which of them is this one's; of
            a text in a ``Batch`` it is valid as long as the text is in there.
    """

    cdef readonly Buffer cache
    cdef readonly int64_t rows, row
    cdef tuple _tokens
    cdef bytes _message  # in which they are, until somebody asks for them

    def __init__(self, tokens, Buffer cache not None, int64_t rows=1, int64_t row=0):
        """Raises ValueError: there is no such row."""
        if not 0 <= row < rows:
            raise ValueError(f"row {row} of a cache of {rows} rows: expected 0 to rows - 1")
        self._tokens, self.cache, self.rows, self.row = tuple(tokens), cache, rows, row

    @property
    def tokens(self) -> tuple:
        if self._tokens is None:
            self._tokens = tuple(self._list())
        return self._tokens

    def _list(self) -> list:
        """``tokens``, as a list of the caller's own."""
        cdef const int64_t* words
        cdef Py_ssize_t i, n
        if self._tokens is not None:
            return list(self._tokens)
        words = <const int64_t*>(<const char*>self._message + _HEAD) + _PLACE_WORDS
        n = self._length()
        return [words[i] for i in range(n)]

    cdef Slots _slots(self):
        """Where its cache is."""
        cdef Slots slots = Slots.__new__(Slots)
        slots.buffer, slots.rows, slots.first, slots.count = self.cache, self.rows, self.row, 1
        return slots

    cdef Py_ssize_t _length(self) except -1:
        """Of the text, in tokens."""
        if self._tokens is not None:
            return len(self._tokens)
        return (len(self._message) - _HEAD) // _WORD - _PLACE_WORDS

    def __eq__(self, other) -> bool:
        if not isinstance(other, Prefix):
            return NotImplemented
        return self._key() == (<Prefix>other)._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self):
        return self.tokens, self.cache, self.rows, self.row

    def __repr__(self) -> str:
        return f"<qnnrt.llm.Prefix of {len(self.tokens)} tokens, {self.cache!r}>"

    def to_bytes(self) -> bytes:
        """A message about it for one other process of this user, or for this one; the memory stays
        until it has been received.

        Raises HandoffError: the cache's buffer cannot be shared.
        """
        # Flat: unpickling a tuple of numbers, a class and its state takes longer than all that a
        # receiver has to do.
        words = array("q", (self.rows, self.row, *self.tokens))
        return buffer_message(self.cache) + words.tobytes()

    @staticmethod
    def from_bytes(bytes message not None) -> Prefix:
        """What `to_bytes` made a message about. Unpickling does the same, and takes some tens of
        microseconds to find this function where caches are cold.

        Raises HandoffError: the message is none, or its memory is gone.
        """
        return receive_prefix(message)

    def __reduce__(self):
        return receive_prefix, (self.to_bytes(),)


cpdef Prefix receive_prefix(bytes message):
    """What a pickled ``Prefix`` is made from, as ``Prefix.from_bytes``."""
    if message is None:
        raise TypeError("a message about a prefix is bytes, not None")
    cdef Py_ssize_t rest = len(message) - _HEAD
    cdef const int64_t* words
    if rest < _PLACE_WORDS * _WORD or rest % _WORD:
        raise errors.HandoffError(f"{len(message)} bytes are no message about a prefix", "message")
    cdef Prefix prefix = Prefix.__new__(Prefix)
    words = <const int64_t*>(<const char*>message + _HEAD)
    prefix.rows, prefix.row, prefix._message = words[0], words[1], message
    if not 0 <= prefix.row < prefix.rows:
        raise errors.HandoffError(
            f"the message speaks of row {prefix.row} of {prefix.rows}: expected 0 to rows - 1",
            "message")
    prefix.cache = _receive(<const char*>message, _HEAD)
    return prefix
