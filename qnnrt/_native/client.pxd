# What the binding uses beside the C interface of qnn.pxd: csrc's C++ for clients, the C++ library,
# the operating system and CPython.

from libc.stdint cimport int32_t, uint32_t, uint64_t
from libcpp cimport bool

from qnnrt._native.qnn cimport (
    GraphInfo_t, Qnn_BackendHandle_t, Qnn_ContextHandle_t, Qnn_GraphHandle_t, Qnn_NotifyStatus_t,
    Qnn_SignalHandle_t, Qnn_Tensor_t, QnnError_FreeVerboseMessageFn_t,
    QnnError_GetVerboseMessageFn_t, QnnGraph_ExecuteFn_t, QnnInterface_ImplementationV2_32_t,
    QnnLog_Level_t, QnnModel_FreeGraphsInfoFn_t, va_list
)


cdef extern from "support/clock.h" namespace "qnnrt" nogil:
    cdef cppclass Ticks:
        @staticmethod
        uint64_t Now()

        @staticmethod
        uint64_t ToNanoseconds(uint64_t ticks)

        @staticmethod
        uint64_t In(uint64_t nanoseconds)


cdef extern from "client/client.h" namespace "qnnrt::client" nogil:
    ctypedef struct LogLine:
        uint64_t timestamp
        uint32_t level
        char* text

    cdef cppclass LogSink:
        @staticmethod
        LogSink& Get()
        bool Take(LogLine* out)
        uint64_t TakeDropped()
        bool pending()

    cdef cppclass Flight:
        void Begin()
        void Cancel()
        void WaitUntilDone()
        uint32_t count()
        uint64_t executes()
        uint64_t ticks()
        void ResetCounters()

    cdef cppclass Completion:
        Completion(void* owner) except +
        void* owner
        Flight* flight
        uint64_t called
        QnnError_GetVerboseMessageFn_t get_message
        QnnError_FreeVerboseMessageFn_t free_message
        uint64_t error
        char* text

    cdef cppclass Completions:
        @staticmethod
        Completions& Get()
        bool Begin()
        void Cancel()
        Completion* Take()
        void Stop()
        bool Claim()
        void GiveBack()
        bool Started()
        void SetTaker()
        bool OnTaker()

    void LogCallback(
        const char* format, QnnLog_Level_t level, uint64_t timestamp, va_list args) noexcept
    void NotifyCallback(void* param, Qnn_NotifyStatus_t status) noexcept
    uint32_t Generation()
    void WatchForks()


cdef extern from *:
    void Prefetch "__builtin_prefetch"(const void* address, int write) noexcept nogil


cdef extern from "<mutex>" namespace "std" nogil:
    cdef cppclass mutex:
        void lock()
        void unlock()
        bool try_lock()


cdef extern from "support/fair_mutex.h" namespace "qnnrt" nogil:
    cdef cppclass FairMutex:
        void lock()
        void unlock()
        bool try_lock()


cdef extern from "client/worker.h" namespace "qnnrt::client" nogil:
    cdef cppclass Execution:
        QnnGraph_ExecuteFn_t execute
        Qnn_GraphHandle_t graph
        Qnn_Tensor_t* inputs
        uint32_t num_inputs
        Qnn_Tensor_t* outputs
        uint32_t num_outputs
        Qnn_SignalHandle_t signal
        FairMutex* one_at_a_time
        Completion* completion

    cdef cppclass Worker:
        Worker() except +
        int Put(Execution* execution)
        void Stop()


cdef extern from "client/model_library.h" namespace "qnnrt::client" nogil:
    cppclass Thrown:
        bool any
        const char* what

    int ComposeGraphs(
        void* function, Qnn_BackendHandle_t backend,
        const QnnInterface_ImplementationV2_32_t& table, Qnn_ContextHandle_t context,
        GraphInfo_t*** graphs, uint32_t* count, Thrown* thrown)
    int FreeGraphsInfo(
        QnnModel_FreeGraphsInfoFn_t function, GraphInfo_t*** graphs, uint32_t count,
        Thrown* thrown)


cdef extern from "<unistd.h>" nogil:
    int close_fd "close" (int fd)


cdef extern from "<dlfcn.h>" nogil:
    enum:
        RTLD_NOW, RTLD_LOCAL
    void* dlopen(const char* path, int flags)
    void* dlsym(void* library, const char* name)
    char* dlerror()
    int dlclose(void* library)


# Not cpython.pycapsule: its destructor takes an object, and the capsule is beyond use by then.
cdef extern from "Python.h":
    object PyCapsule_New(void* pointer, const char* name, void (*destructor)(PyObject*) noexcept)
    int PyCapsule_IsValid(PyObject* capsule, const char* name) nogil
    void* PyCapsule_GetPointer(PyObject* capsule, const char* name) nogil
    int Py_IsInitialized() nogil
    ctypedef struct PyObject:
        pass
