# Part of _core.pyx: the fields of a serialized ONNX node, taken out in one walk.

cdef int64_t _varint(const uint8_t* data, Py_ssize_t* at, Py_ssize_t end) noexcept:
    """A number of at most 63 bits; -1 where there is none."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at[0] < end and shift < 63:
        byte = data[at[0]]
        at[0] += 1
        value |= <uint64_t>(byte & 0x7f) << shift
        if byte < 0x80:
            return <int64_t>value if value >> 63 == 0 else -1
        shift += 7
    return -1


def onnx_node(bytes message not None):
    """A serialized NodeProto: its inputs, outputs, name, operator, domain and overload, and the
    bytes of its attributes, which are a NodeProto of nothing else.

    None for what is not written as protobuf writes it: fields of other kinds, attributes apart
    from each other, texts that are not UTF-8.
    """
    cdef const uint8_t* data = <const uint8_t*><const char*>message
    cdef Py_ssize_t end = len(message), at = 0, begin
    cdef Py_ssize_t first = 0, after = 0
    cdef int64_t tag, size
    cdef uint64_t number
    cdef list inputs = [], outputs = []
    cdef str name = "", op = "", domain = "", overload = "", text
    while at < end:
        begin = at
        tag = _varint(data, &at, end)
        if tag < 0 or tag & 7 != 2:  # not a text or a message
            return None
        size = _varint(data, &at, end)
        if size < 0 or size > end - at:
            return None
        number = <uint64_t>tag >> 3
        if number == 5:
            if after == 0:
                first = begin
            elif after != begin:
                return None
            after = at + size
        elif 1 <= number <= 4 or number == 7 or number == 8:
            try:
                text = message[at:at + size].decode("utf-8")
            except UnicodeDecodeError:
                return None
            if number == 1:
                inputs.append(text)
            elif number == 2:
                outputs.append(text)
            elif number == 3:
                name = text
            elif number == 4:
                op = text
            elif number == 7:
                domain = text
            else:
                overload = text
        elif number != 6 and number != 9 and number != 10:  # a remark, metadata, devices
            return None
        at += size
    return inputs, outputs, name, op, domain, overload, message[first:after]
