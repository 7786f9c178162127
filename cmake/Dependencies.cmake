# Finds what mstrain is built on, for its own build and for programs that use the installed package.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(GIF REQUIRED)
# The C interface alone is used: no C++ bindings.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# What Debian has without a CMake package (oneDNN's asks for OpenCL) is looked up by name.
include(${CMAKE_CURRENT_LIST_DIR}/ImportedLibrary.cmake)
mstrain_imported_library(dnnl oneapi/dnnl/dnnl.hpp)
mstrain_imported_library(isal isa-l/crc.h)
mstrain_imported_library(utf8proc utf8proc.h)
mstrain_imported_library(pcre2-8 pcre2.h)
mstrain_imported_library(cpp-httplib httplib.h)
