# Part of _core.pyx: where the fields of serialized messages lie, and those of an ONNX node.

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


def protobuf_fields(data, Py_ssize_t at, Py_ssize_t end):
    """The fields of the message that is data[at:end], in order: number, kind, and where field,
    value and end are. None for what is no message, or has groups."""
    cdef Py_buffer view
    cdef const uint8_t* bytes_
    cdef Py_ssize_t begin, value, count
    cdef int64_t tag, size
    cdef int kind
    cdef list found = []
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        bytes_ = <const uint8_t*>view.buf
        if not 0 <= at <= end <= view.len:
            raise ValueError(f"bytes {at} to {end} of {view.len}")
        while at < end:
            begin = at
            tag = _varint(bytes_, &at, end)
            if tag < 8 or tag >> 3 >= 1 << 29:
                return None
            kind = tag & 7
            value = at
            if kind == 2:  # of bytes
                size = _varint(bytes_, &at, end)
                if size < 0 or size > end - at:
                    return None
                value = at
                at += size
            elif kind == 0:  # a number, of up to 64 bits
                count = 0
                while at < end and count < 10 and bytes_[at] >= 0x80:
                    at += 1
                    count += 1
                if at == end or count == 10:
                    return None
                at += 1
            elif kind == 1 or kind == 5:
                at += 8 if kind == 1 else 4
                if at > end:
                    return None
            else:
                return None
            found.append((tag >> 3, kind, begin, value, at))
        return found
    finally:
        PyBuffer_Release(&view)


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


cdef bytes _listed(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int size):
    """The numbers of a field that lists them as int32, each in so many of its bytes; None where
    they are no numbers."""
    cdef Py_ssize_t count = 0
    cdef int64_t shift
    cdef uint64_t value
    cdef bytes elements = PyBytes_FromStringAndSize(NULL, (end - at) * size)
    cdef char* numbers = elements
    while at < end:
        value, shift = 0, 0
        while at < end and data[at] >= 0x80 and shift < 63:
            value |= <uint64_t>(data[at] & 0x7f) << shift
            shift += 7
            at += 1
        if at == end or data[at] >= 0x80:
            return None
        value |= <uint64_t>data[at] << shift
        if size == 1:
            (<uint8_t*>numbers)[count] = <uint8_t>value
        elif size == 2:
            (<uint16_t*>numbers)[count] = <uint16_t>value
        else:
            (<int32_t*>numbers)[count] = <int32_t>value
        count += 1
        at += 1
    return elements if count * size == len(elements) else elements[:count * size]


cdef tuple _tensor(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t least):
    """A serialized TensorProto: its name, its sizes, its element type, its elements, and
    where the field of them, they and their end are. Elements are raw data, or listed as float32 or
    as int32. None instead of the elements: raw data of `least` bytes and more.

    None for one that has anything else, or its data elsewhere.
    """
    cdef Py_ssize_t field = 0, begin = -1, stop = 0, packed, start
    cdef int64_t tag, number, element = 0, kept = 0
    cdef list dims = []
    cdef str name = ""
    cdef bytes elements = None
    while at < end:
        start = at
        tag = _varint(data, &at, end)
        if tag == 1 << 3 or tag == 2 << 3:
            number = _varint(data, &at, end)
            if number < 0:
                return None
            if tag == 2 << 3:
                element = number
            else:
                dims.append(number)
            continue
        if tag < 0 or tag & 7 != 2:  # not a text or bytes
            return None
        number = _varint(data, &at, end)
        if number < 0 or number > end - at:
            return None
        packed = at + number
        tag >>= 3
        if tag == 1:
            while at < packed:
                number = _varint(data, &at, packed)
                if number < 0:
                    return None
                dims.append(number)
        elif tag == 8:
            try:
                name = (<const char*>data)[at:packed].decode("utf-8")
            except UnicodeDecodeError:
                return None
        elif tag == 9 or tag == 4 or tag == 5:
            if begin >= 0:
                return None
            kept, field, begin, stop = tag, start, at, packed
        elif tag != 12:  # a remark
            return None
        at = packed
    if begin < 0 or (kept == 4 and element != 1):
        return None
    if kept == 5:
        if element == 2 or element == 3:  # UINT8, INT8
            elements = _listed(data, begin, stop, 1)
        elif element == 4 or element == 5:  # UINT16, INT16
            elements = _listed(data, begin, stop, 2)
        elif element == 6:  # INT32
            elements = _listed(data, begin, stop, 4)
        if elements is None:
            return None
    elif kept == 4 or stop - begin < least:
        elements = (<const char*>data)[begin:stop]
    return name, tuple(dims), element, elements, field, begin, stop


def onnx_tensor(bytes message not None, Py_ssize_t least):
    """A serialized TensorProto as `_tensor` reads it."""
    return _tensor(<const uint8_t*><const char*>message, 0, len(message), least)


def onnx_initializers(data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t least):
    """The initializers of the GraphProto that is data[at:end], in order: where field, value and end
    are, and what `_tensor` finds. None for what is no message, or has groups."""
    cdef Py_buffer view
    cdef list found = []
    fields = protobuf_fields(data, at, end)
    if fields is None:
        return None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for number, kind, begin, value, after in fields:
            if number == 5 and kind == 2:
                tensor = _tensor(<const uint8_t*>view.buf, value, after, least)
                found.append((begin, value, after, tensor))
        return found
    finally:
        PyBuffer_Release(&view)


def onnx_constant(bytes message not None):
    """A serialized NodeProto of a Constant that gives the tensor of raw data which it holds: its
    name, the names of its output and domain, and the tensor's sizes, its element type, and where in
    the message its data begins and ends.

    None for any other node.
    """
    cdef const uint8_t* data = <const uint8_t*><const char*>message
    cdef Py_ssize_t end = len(message), at = 0, stop, inner = 0, last = 0
    cdef int64_t tag, size
    cdef int number, seen = 0
    cdef str name = "", domain = "", text
    cdef object output = None
    while at < end:
        tag = _varint(data, &at, end)
        if tag < 0 or tag & 7 != 2:
            return None
        size = _varint(data, &at, end)
        if size < 0 or size > end - at:
            return None
        stop = at + size
        number = <int>(tag >> 3) if tag >> 3 < 16 else 0
        if number == 5:
            if last:
                return None
            inner, last = at, stop
        elif number == 2 or number == 3 or number == 4 or number == 7:
            try:
                text = message[at:stop].decode("utf-8")
            except UnicodeDecodeError:
                return None
            if number == 2:
                if output is not None:
                    return None
                output = text
            elif number == 3:
                name = text
            elif number == 7:
                domain = text
            elif text == "Constant":
                seen |= 4
        elif number != 6 and number != 9 and number != 10:  # a remark, metadata, devices
            return None
        at = stop
    # The attribute: a name, a tensor, and that it is one.
    at, end = inner, last
    tensor = None
    while at < end:
        tag = _varint(data, &at, end)
        size = _varint(data, &at, end)
        if tag < 0 or size < 0:
            return None
        if tag == 20 << 3:  # 4 is TENSOR
            if size != 4:
                return None
            seen |= 1
            continue
        if tag & 7 != 2 or size > end - at:
            return None
        stop = at + size
        if tag >> 3 == 1:
            if message[at:stop] != b"value":
                return None
            seen |= 2
        elif tag >> 3 == 5 and tensor is None:
            tensor = _tensor(data, at, stop, 0)
            if tensor is None or tensor[3] is not None:  # listed
                return None
        elif tag >> 3 != 13:  # a remark
            return None
        at = stop
    if seen != 7 or tensor is None or output is None:
        return None
    return name, output, domain, (tensor[1], tensor[2], tensor[5], tensor[6])
