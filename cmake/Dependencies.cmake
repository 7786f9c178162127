# Finds what mstrain is built on, for its own build and for programs that use the installed package.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(ZLIB REQUIRED)
# Debian's CMake package of oneDNN asks for OpenCL, so the library is looked up by name.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
add_library(dnnl_imported INTERFACE IMPORTED)
target_include_directories(dnnl_imported SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl_imported INTERFACE ${DNNL_LIBRARY})
