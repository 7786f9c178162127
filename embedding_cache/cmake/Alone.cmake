# What the top of the suite does for all its rooms, for the three below this one.
cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH root)
include(${root}/cmake/Settings.cmake)
option(MSTRAIN_TESTS "Build the tests" OFF)

list(APPEND CMAKE_MODULE_PATH ${root}/cmake)
include(${CMAKE_CURRENT_LIST_DIR}/Needs.cmake)
include(Rooms)
target_include_directories(mstrain_options INTERFACE $<BUILD_INTERFACE:${root}>)
mstrain_room(base ${root}/core/base DEPENDS fmt::fmt Threads::Threads nlohmann_json::nlohmann_json
             PRIVATE_DEPENDS yaml-cpp)
target_compile_definitions(mstrain_base PRIVATE MSTRAIN_SOURCE_DIR="${root}" MSTRAIN_VERSION="${PROJECT_VERSION}")
mstrain_room(runtime ${root}/core/runtime DEPENDS mstrain_base)
mstrain_room(io ${root}/core/io DEPENDS mstrain_runtime PRIVATE_DEPENDS ZLIB::ZLIB OpenSSL::Crypto isal_imported)
