# find_package(qnnrt CONFIG), with CMAKE_PREFIX_PATH or qnnrt_DIR from `qnnrt cmake-dir`. Targets:
#   qnnrt::headers            the headers, under QNN's names and our own, for programs that dlopen
#   qnnrt::qnnrt              libqnnrt.so: all backends in one list, and what QNN has no name for
#   qnnrt::QnnCpu, QnnGpu, QnnHtp, QnnIr, QnnLpai, QnnSaver, QnnSystem, QnnTFLiteDelegate, cdsprpc
#                             the drop-in library of that name, which needs no other
# Programs find the libraries where they lie: CMake puts their folder into the rpath of what is built.

get_filename_component(_qnnrt_package "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

if(NOT TARGET qnnrt::headers)
  add_library(qnnrt::headers INTERFACE IMPORTED)
  set_target_properties(qnnrt::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES
    "${_qnnrt_package}/include;${_qnnrt_package}/include/qnnrt;${_qnnrt_package}/include/qnnrt/QNN")
  foreach(_qnnrt_name qnnrt QnnCpu QnnGpu QnnHtp QnnIr QnnLpai QnnSaver QnnSystem QnnTFLiteDelegate cdsprpc)
    add_library(qnnrt::${_qnnrt_name} SHARED IMPORTED)
    set_target_properties(qnnrt::${_qnnrt_name} PROPERTIES
      IMPORTED_LOCATION "${_qnnrt_package}/lib/lib${_qnnrt_name}.so"
      IMPORTED_SONAME "lib${_qnnrt_name}.so"
      INTERFACE_LINK_LIBRARIES qnnrt::headers)
    if(NOT _qnnrt_name STREQUAL "qnnrt")  # what they stand on, beside them
      set_target_properties(qnnrt::${_qnnrt_name} PROPERTIES
        IMPORTED_LINK_DEPENDENT_LIBRARIES qnnrt::qnnrt)
    endif()
  endforeach()
endif()

unset(_qnnrt_name)
unset(_qnnrt_package)
